"""Which similarity suits the pairs? Each is judged on pairs whose origins it has not seen."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Generator, Tensor
from tqdm.auto import tqdm

from ahop._numbers import distinct
from ahop._typing import Patterns
from ahop.calibration import UnknownDetector
from ahop.errors import InvalidValueError
from ahop.fitting.calibration import best_sharpness, detector_of, fit_detector, log_loss
from ahop.fitting.candidates import CANDIDATES, Candidate, Lesson, debiased
from ahop.fitting.crowd import crowd_of, pairs_to_scan
from ahop.fitting.report import Corruption, Trial
from ahop.similarities.base import Similarity
from ahop.variants.base import Pairs

# Where fits are dear, fewer folds have to do.
FOLDS, FEW_FOLDS, DEAR = 5, 3, 1 << 18
# Fewer origins cannot be split into some to learn from and some to judge by.
LEAST_ORIGINS = 4
# Standard errors that a candidate may be behind the best and still be as good within chance.
CHANCE = 2.0
# A mixture describes the copies if its log-loss is within this of the best.
TOLERATED = 0.1
# Pairs that judge, and stored patterns that they are told apart from: neither grows with the memory.
JUDGED_PAIRS, MOST_RIVALS, LEAST_RIVALS, WORK = 1024, 2048, 256, 1 << 28


@dataclass(frozen=True)
class Choice:
    """The similarity that was chosen, fitted to all pairs, and everything that was learned on the way."""

    similarity: Similarity
    beta: float
    detector: UnknownDetector | None
    trials: tuple[Trial, ...]
    lesson: Lesson
    candidate: Candidate


def describe_corruption(lesson: Lesson, trials: Sequence[Trial]) -> Corruption:
    """What the mixture makes of the pairs, and whether anything explains them much better."""
    variant, weights = lesson.mixture.variant, lesson.trusted
    kept = weights.sum() * (1 - variant.garbage_rate)
    error = variant.std / kept.clamp_min(1).sqrt()
    losses = {trial.name: trial.log_loss for trial in trials}
    best = min(losses.values(), default=0.0)
    explained = losses.get("mixture", best) <= best + TOLERATED
    present = ~torch.isnan(lesson.originals)
    return Corruption(
        shifts=tuple(variant.bias.tolist()),
        shifted=int((variant.bias.abs() > 3 * error).sum()),
        signs=variant.signs,
        gain=float(variant.gain.median()),
        noise=float(variant.std.median()),
        garbage_rate=float(variant.garbage_rate.mean()),
        missing_rate=float((torch.isnan(lesson.copies) & present).sum() / present.sum().clamp_min(1)),
        gaps_speak=variant.missingness.is_evidence,
        wrong_pairs=int((lesson.mixture.trust < 0.5).sum()),
        fits=explained,
    )


def choose(patterns: Patterns, pairs: Pairs, names: Sequence[str] | None, seed: int, progress: bool) -> Choice:
    """The candidate with the least held-out log-loss, refitted to all pairs; of all, or of those named.

    Of those that are as good within chance, the first in the order of `CANDIDATES`.
    """
    lesson = _lesson(patterns, pairs, seed)
    wanted = [each for each in CANDIDATES if (names is None or each.name in names) and each.suits(lesson)]
    folds = _folds(lesson.origins, FOLDS if lesson.copies.numel() <= DEAR else FEW_FOLDS, seed)
    if folds is None:
        return _fall_back(lesson)
    judged = _judged(len(lesson), seed)
    outcomes = []
    parts = [_Part(lesson, judged, folds, fold) for fold in range(int(folds.max()) + 1)]
    weights = lesson.trusted[judged]
    with tqdm(total=len(wanted), desc="compare", unit="model", disable=not progress) as bar:
        for candidate in wanted:
            bar.set_postfix_str(candidate.name)
            outcome = _judge(candidate, parts, lesson, judged, weights, may_fail=len(wanted) > 1)
            outcomes += [outcome] if outcome is not None else []
            bar.update()
    best = _preferred(outcomes, weights)
    if len(patterns) > len(lesson.patterns):
        beta, detector = _among_all(best, parts, patterns, pairs.origins, lesson, judged, seed)
    else:
        beta, detector = best.trial.beta, fit_detector(best.scores, lesson.origins[judged], weights)
    trials = tuple(sorted((each.trial for each in outcomes), key=lambda each: each.log_loss))
    return Choice(best.candidate.learn(lesson), beta, detector, trials, lesson, best.candidate)


class _Part:
    """One fold: what is learned from, and the judged pairs that are held out."""

    def __init__(self, lesson: Lesson, judged: Tensor, folds: Tensor, fold: int) -> None:
        self.lesson = lesson.part((folds != fold).nonzero().squeeze(-1))
        self.places = (folds[judged] == fold).nonzero().squeeze(-1)
        self.copies = lesson.copies[judged[self.places]]


@dataclass(frozen=True)
class _Outcome:
    """A trial with what was learned in each fold, and scores (m, p) and losses (m,) of the pairs it was judged on."""

    candidate: Candidate
    learned: list[Similarity]
    trial: Trial
    scores: Tensor
    losses: Tensor


def _preferred(outcomes: list[_Outcome], weights: Tensor) -> _Outcome:
    """The first, in the order of the candidates, that is not worse than the best by more than chance would explain."""
    best = min(outcomes, key=lambda each: each.trial.log_loss)
    shares = weights.double() / weights.double().sum().clamp_min(1e-12)
    for each in outcomes:
        behind = each.losses - best.losses
        mean = (behind * shares).sum()
        error = ((behind - mean).square() * shares).sum().sqrt() / max(1, len(behind) - 1) ** 0.5
        if mean <= CHANCE * error:
            return each
    return best


def _judge(
    candidate: Candidate, parts: list[_Part], lesson: Lesson, judged: Tensor, weights: Tensor, may_fail: bool
) -> _Outcome | None:
    """None for what these pairs cannot teach, where there is something else to choose."""
    scores = lesson.patterns.new_empty(len(judged), len(lesson.patterns))
    try:
        with torch.no_grad():
            learned = [candidate.learn(part.lesson) for part in parts]
            for similarity, part in zip(learned, parts, strict=True):
                if len(part.places):
                    scores[part.places] = similarity(lesson.patterns, part.copies)
    except InvalidValueError:
        if not may_fail:
            raise
        return None
    if may_fail and not bool(torch.isfinite(scores).all()):
        return None
    return _outcome(candidate, learned, scores, lesson.origins[judged], weights)


def _among_all(
    best: _Outcome, parts: list[_Part], patterns: Patterns, origins: Tensor, lesson: Lesson, judged: Tensor, seed: int
) -> tuple[float, UnknownDetector]:
    """Sharpness and detector for all patterns: among those that were drawn, nearly every copy finds its origin."""
    count = min(len(judged), pairs_to_scan(patterns))
    some = torch.linspace(0, len(judged) - 1, count).long()
    fold = torch.empty(len(judged), dtype=torch.long)
    for number, part in enumerate(parts):
        fold[part.places] = number
    judges = [best.learned[number] for number in fold[some].tolist()]
    asked = judged[some]
    crowd = crowd_of(patterns, origins[asked], lesson.copies[asked], debiased(lesson), judges, seed)
    weights, first = lesson.trusted[asked], torch.zeros_like(crowd.own[:, 0], dtype=torch.long)
    beta = best_sharpness(crowd.scores, first, weights, crowd.log_counts)
    return beta, detector_of(crowd.features(with_origin=True), crowd.features(with_origin=False), weights)


def _outcome(
    candidate: Candidate, learned: list[Similarity], scores: Tensor, origins: Tensor, weights: Tensor
) -> _Outcome:
    beta = best_sharpness(scores, origins, weights)
    hits, losses = (scores.argmax(-1) == origins).double(), log_loss(scores, origins, beta)
    total = weights.sum().clamp_min(1e-12)
    loss, accuracy = (float((values * weights).sum() / total) for values in (losses, hits))
    return _Outcome(candidate, learned, Trial(candidate.name, loss, accuracy, beta), scores, losses)


def _lesson(patterns: Patterns, pairs: Pairs, seed: int) -> Lesson:
    """The pairs, beside as many stored patterns as the work allows: all origins, and others drawn at random."""
    origins, places = distinct(pairs.origins)
    judged = max(1, min(len(pairs), JUDGED_PAIRS))
    room = min(max(WORK // (judged * patterns.shape[1]), LEAST_RIVALS), MOST_RIVALS)
    generator = Generator().manual_seed(seed)
    if len(patterns) <= room:
        drawn = torch.arange(len(patterns))
    else:
        drawn = torch.randint(len(patterns), (max(0, room - len(origins)),), generator=generator)
    rows = distinct(torch.cat([origins.cpu(), drawn]))[0]
    place = torch.searchsorted(rows, origins.cpu())[places.cpu()]
    stored = patterns[rows.to(patterns.device)].detach()
    return Lesson(stored, place.to(stored.device), pairs.queries.detach(), torch.ones(len(pairs)).to(stored))


def _folds(origins: Tensor, count: int, seed: int) -> Tensor | None:
    """The fold of each pair: copies of one origin stay together. None if there are too few origins."""
    different, places = distinct(origins)
    if len(different) < LEAST_ORIGINS:
        return None
    order = torch.randperm(len(different), generator=Generator().manual_seed(seed))
    return (order % min(count, len(different)))[places]


def _judged(count: int, seed: int) -> Tensor:
    order = torch.randperm(count, generator=Generator().manual_seed(seed))
    return order[:JUDGED_PAIRS].sort().values


def _fall_back(lesson: Lesson) -> Choice:
    """Too little to learn from: the fixed similarity that does best on the pairs there are."""
    fixed = [each for each in CANDIDATES if each.is_fixed]
    different = len(distinct(lesson.origins)[0])
    if len(lesson):
        trials = []
        for each in fixed:
            scores = each.learn(lesson)(lesson.patterns, lesson.copies)
            trials.append(_outcome(each, [], scores, lesson.origins, lesson.weights).trial)
    else:
        trials = [Trial(each.name, float("nan"), float("nan"), 1.0) for each in fixed]
    best = min(range(len(fixed)), key=lambda number: trials[number].log_loss) if different > 1 else 0
    warnings.warn(
        f"{len(lesson)} pairs of {different} different origins are too few to learn a corruption from; at least "
        f"{LEAST_ORIGINS} origins are needed. Using the fixed similarity {fixed[best].name!r}, with no probability "
        "of unknown queries.",
        UserWarning,
        stacklevel=5,
    )
    ordered = tuple(sorted(trials, key=lambda each: each.log_loss))
    return Choice(fixed[best].learn(lesson), 1.0, None, ordered, lesson, fixed[best])
