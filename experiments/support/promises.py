"""What answers say about themselves, and what is true of it."""

from collections.abc import Callable

import torch
from scipy.stats import binomtest
from torch import Generator, Tensor

import ahop
from ahop.errors import AhopError
from experiments.support.harness import Row
from experiments.support.measures import calibration_error, reliability

PRECISION, SURE, DRAWS, CONFIDENCE = 0.9, 0.9, 200, 0.95
VERDICTS = ("kept", "broken", "none accepted", "refused")


def judged(memory: ahop.AssociativeMemory, test: ahop.Pairs, labels: ahop.Pairs | None, seed: int) -> Row:
    """How far the first answers are right, by what was said of them; `ahop.watch` and precision 0.9 beside it.

    Args:
        labels: what a policy is found on; None for whoever has no label, and takes probabilities at their word.
    """
    answer = memory.recall(test.queries)
    right, said = answer.indices[:, 0] == test.origins, answer.posterior[:, 0].double()
    sure = said > SURE
    return {
        "right": float(right.double().mean()),
        "said": float(said.mean()),
        "confidence": float(answer.confidence.mean()),
        "checked": str(answer.is_checked),
        "ece": calibration_error(*reliability(said, right)),
        "ece_chance": _error_by_chance(said, seed),
        "sure_share": float(sure.double().mean()),
        "sure_right": _share(right[sure]),
        "sure_tally": [int(right[sure].sum()), int(sure.sum())],
        **_watched(memory, test.queries, float(right.double().mean())),
        **_promised(lambda: _accepted(memory, answer, labels), right),
        **_promised(lambda: _at_word(answer), right, "at_word_"),
    }


def _error_by_chance(said: Tensor, seed: int) -> float:
    """The mean calibration error of one who says the same and is right as often as he says."""
    generator = Generator().manual_seed(seed)
    found = [
        calibration_error(*reliability(said, torch.rand(said.shape, generator=generator, dtype=said.dtype) < said))
        for _ in range(DRAWS)
    ]
    return sum(found) / DRAWS


def _watched(memory: ahop.AssociativeMemory, queries: Tensor, truth: float) -> Row:
    accuracy = ahop.watch(memory, queries).accuracy
    if accuracy is None:
        return {"watch_low": None, "watch_high": None, "watch_covers": None, "watch_tally": [0, 0, 1]}
    covers = accuracy.low <= truth <= accuracy.high
    return {
        "watch_low": accuracy.low,
        "watch_high": accuracy.high,
        "watch_covers": float(covers),
        "watch_tally": [int(covers), 1, 0],
    }


def _accepted(memory: ahop.AssociativeMemory, answer: ahop.Recall[Tensor], labels: ahop.Pairs | None) -> Tensor:
    """Which answers are accepted by whoever wants a precision of 0.9: by a policy of the labels, or at their word."""
    if labels is None:
        return _at_word(answer)
    decided = answer.decide(ahop.policy(memory, labels, precision=PRECISION))
    return torch.from_numpy(decided.actions == "accept")


def _at_word(answer: ahop.Recall[Tensor]) -> Tensor:
    """As `ahop recall --precision 0.9` accepts without held-out pairs; what is not checked is refused."""
    if not answer.is_checked:
        raise ahop.errors.UnsupportedError("Probabilities that nobody has checked promise nothing.")
    expected = answer.q_values() <= 1 - PRECISION
    return answer.confidence >= answer.confidence[expected].min() if expected.any() else expected


def _promised(accept: Callable[[], Tensor], right: Tensor, prefix: str = "") -> Row:
    """Broken, if so few of the accepted are right that a precision of 0.9 is beyond the interval of 95 %."""
    try:
        accepted = accept()
    except AhopError:
        verdict, count, hits = "refused", 0, 0
    else:
        count, hits = int(accepted.sum()), int(right[accepted].sum())
        is_broken = count > 0 and binomtest(hits, count).proportion_ci(CONFIDENCE).high < PRECISION
        verdict = "broken" if is_broken else "kept" if count else "none accepted"
    return {
        f"{prefix}accepted": count / len(right),
        f"{prefix}accepted_right": hits / count if count else None,
        f"{prefix}accepted_tally": [hits, count],
        f"{prefix}promise": verdict,
        f"{prefix}promise_tally": [int(verdict == each) for each in VERDICTS],
    }


def _share(hits: Tensor) -> float | None:
    return float(hits.double().mean()) if len(hits) else None
