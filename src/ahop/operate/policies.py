"""The `policy` function: from where on answers can be relied on."""

from collections.abc import Mapping, Sequence
from math import ceil, floor, log
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ahop._core.arrays import is_tensor, to_numpy
from ahop._core.checks import check_choice
from ahop._core.labels import SEVERAL, right_ids
from ahop.errors import InvalidTypeError, InvalidValueError, UnsupportedError
from ahop.memory.decisions import Policy, is_bounded, share_of, upper_bound
from ahop.memory.recall import Recall, Recaller

if TYPE_CHECKING:
    from ahop._core.typing import Entries, RowsLike
    from ahop.variants.base import Pairs

Flags: TypeAlias = NDArray[np.bool_]
# Answers that are looked through for the origin, where sets of them are to hold it.
SET_ANSWERS = 64
COSTS = ("wrong", "ask")


def policy(
    memory: Recaller,
    pairs: "Pairs | tuple[Entries, RowsLike]",
    *,
    precision: float | None = None,
    false_accept: float | None = None,
    costs: Mapping[str, float | int] | None = None,
    coverage: float | None = None,
    strangers: "RowsLike | None" = None,
    groups: Sequence[object] | None = None,
    confidence: float = 0.95,
) -> Policy:
    """From where on answers are accepted, so that what is asked for holds; give one of the four.

    What is promised holds for queries such as these, with the confidence that is asked for. What so few pairs cannot
    promise is refused: no error among n bounds the rate of errors only by about 3 / n.

    Args:
        memory: whatever recalls.
        pairs: (origins, copies) that the memory was not fitted to; origins are rows, or labels where it has labels. An
            origin may be several in a list, each of them right; or None, where no answer is.
        precision: of the accepted answers at least this share is right.
        false_accept: of the queries of no stored pattern at most this share is accepted; needs `strangers`.
        costs: what a "wrong" answer and an "ask" of a person cost; probabilities are taken at their word, which labels
            must have checked when the memory was fitted.
        coverage: sets of answers hold the origin with this probability (split conformal).
        strangers: queries of no stored pattern, in the share in which they come.
        groups: where each copy comes from, if the memory was fitted with groups.
    """
    asked = {"precision": precision, "false_accept": false_accept, "costs": costs, "coverage": coverage}
    given = {name: value for name, value in asked.items() if value is not None}
    if len(given) != 1:
        raise InvalidTypeError(f"Give one of {', '.join(f'`{name}`' for name in asked)}; got {len(given)} of them.")
    judge = HeldOut(memory, pairs, strangers, groups, _rate("confidence", confidence))
    if precision is not None:
        return judge.by_precision(_rate("precision", precision))
    if false_accept is not None:
        return judge.by_false_accepts(_rate("false_accept", false_accept))
    if costs is not None:
        return judge.by_costs(costs)
    assert coverage is not None
    return judge.by_coverage(_rate("coverage", coverage))


class HeldOut:
    """Answers to pairs that were held out, and to queries of no stored pattern.

    Attributes:
        sure: (m,) the confidence of the first answer, of pairs and then of queries of no stored pattern.
        right: (m,) whether it is the origin.
        strange: (m,) which queries come from no stored pattern.
        is_open: (m,) which are not called unknown, so that they may be accepted.
    """

    def __init__(
        self,
        memory: Recaller,
        pairs: "Pairs | tuple[Entries, RowsLike]",
        strangers: "RowsLike | None",
        groups: Sequence[object] | None,
        confidence: float,
    ) -> None:
        are_rows = hasattr(pairs, "origins") and hasattr(pairs, "queries")
        if not are_rows and not (isinstance(pairs, tuple | list) and len(pairs) == 2):
            raise InvalidTypeError(
                f"`pairs` must be two arrays, `(origins, copies)`; got {type(pairs).__name__}. Of a frame with a "
                "column of origins pass `(frame['origin'], frame.drop(columns='origin'))`."
            )
        given: Any = pairs
        origins, copies = (given.origins, given.queries) if are_rows else given
        self.confidence = confidence
        self.answers = memory.recall(copies, SET_ANSWERS, groups=groups)
        self.is_origin = _is_origin(self.answers, origins, are_rows)
        asked = [self.answers] if strangers is None else [self.answers, memory.recall(strangers, 1)]
        self.sure, self.is_open = (np.concatenate(parts) for parts in zip(*map(_sure, asked), strict=True))
        self.strange = np.arange(len(self.sure)) >= len(self.is_origin)
        self.right = np.zeros(len(self.sure), dtype=bool)
        self.right[: len(self.is_origin)] = self.is_origin[:, 0]

    def by_precision(self, precision: float) -> Policy:
        """The loosest threshold in a row of them, from strict to loose, all of which keep the promise."""
        ordered, count = -np.sort(-self.sure), len(self.sure)
        needed = ceil(log(1 - self.confidence) / log(precision))
        self._check_enough(count, needed, f"a precision of {precision:g}")
        places = [*range(max(needed, count // 20), count, max(1, count // 100)), count]
        thresholds = list(dict.fromkeys(float(ordered[place - 1]) for place in places))  # answers may be as sure
        chosen = None
        for threshold in thresholds:
            if not is_bounded(*self.errors_from(threshold), 1 - precision, self.confidence):
                break
            chosen = threshold
        if chosen is None:
            errors, accepted = self.errors_from(thresholds[0])
            raise InvalidValueError(
                f"A precision of {precision:g} cannot be promised: of the {accepted} surest answers {errors} were "
                f"wrong, so that up to {100 * upper_bound(errors, accepted, self.confidence):.1f} % may be. Ask for "
                "less, or give more pairs."
            )
        promise = f"At least {100 * precision:g} % of the accepted answers are right"
        return self._policy(chosen, promise, "precision", precision)

    def errors_from(self, threshold: float) -> tuple[int, int]:
        """Count wrong and accepted answers from this confidence on."""
        accepted = self.accepted_from(threshold)
        return int((accepted & ~self.right).sum()), int(accepted.sum())

    def accepted_from(self, threshold: float) -> Flags:
        """Mark the answers that are accepted from this confidence on, (m,)."""
        accepted: Flags = self.is_open & (self.sure >= threshold)
        return accepted

    def by_false_accepts(self, rate: float) -> Policy:
        if not self.strange.any():
            raise InvalidTypeError("`false_accept` needs `strangers=`: queries that come from no stored pattern.")
        needed = ceil(log(1 - self.confidence) / log(1 - rate))
        surest, allowed = -np.sort(-np.where(self.is_open, self.sure, 0)[self.strange]), 0
        self._check_enough(len(surest), needed, f"a false-accept rate of {rate:g}", "strangers")
        while allowed + 1 < len(surest) and is_bounded(allowed + 1, len(surest), rate, self.confidence):
            allowed += 1
        threshold = float(np.nextafter(np.float64(surest[allowed]), np.inf))
        promise = f"At most {100 * rate:g} % of the queries of no stored pattern are accepted"
        return self._policy(threshold, promise, "false_accept", rate)

    def by_costs(self, costs: Mapping[str, float | int]) -> Policy:
        for name in costs:
            check_choice("costs", name, COSTS)
        wrong, ask = (float(costs.get(name, 0.0)) for name in COSTS)
        if not 0 < ask < wrong:
            raise InvalidValueError(
                f"`costs` must be those of a wrong answer, and less for asking; got {dict(costs)}. Write "
                '`costs={"wrong": 20, "ask": 1}`.'
            )
        if not self.answers.is_checked:
            raise UnsupportedError(
                "`costs` take probabilities at their word, and no label has checked these. Ask for a `precision`, "
                "which these pairs can promise; or fit with some of them."
            )
        return self._policy(
            1 - ask / wrong, f"A wrong answer costs {wrong:g}, asking costs {ask:g}", "costs", wrong, ask
        )

    def by_coverage(self, coverage: float) -> Policy:
        count = len(self.is_origin)
        self._check_enough(count, ceil(1 / (1 - coverage)) - 1, f"a coverage of {coverage:g}")
        of_origin = (to_numpy(self.answers.posterior).astype(np.float64) * self.is_origin).sum(-1)
        place = floor((count + 1) * (1 - coverage))
        threshold = float(np.sort(of_origin)[max(0, place - 1)])
        promise = f"Sets of answers hold the origin in {100 * coverage:g} % of the cases"
        return Policy(1.0, set_from=threshold, promise=promise, rule="coverage", promised=(coverage,))

    def _policy(self, threshold: float, promise: str, rule: str, *promised: float) -> Policy:
        accepted = self.accepted_from(threshold)[~self.strange]
        share = share_of(int(accepted.sum()), len(accepted), self.confidence)
        return Policy(threshold, promise=promise, accepted=share, rule=rule, promised=promised)

    def _check_enough(self, count: int, needed: int, promise: str, of: str = "pairs") -> None:
        if count < needed:
            raise InvalidValueError(
                f"{count} {of} cannot promise {promise} with a confidence of {self.confidence:g}, were all of them "
                f"right; at least {needed} are needed."
            )


def _sure(answers: Recall[Any]) -> tuple[NDArray[Any], Flags]:
    """Confidence of each first answer, and whether its query is not called unknown instead."""
    sure = to_numpy(answers.confidence)
    if answers.unknown is None:
        return sure, np.ones(len(sure), dtype=bool)
    return sure, to_numpy(answers.unknown).astype(np.float64) < Policy.unknown_from


def _is_origin(answers: Recall[Any], origins: Any, are_rows: bool) -> Flags:
    """Mark the answers (b, k) that are the origin."""
    found = to_numpy(answers.indices if are_rows or answers.labels is None else answers.labels)
    if not is_tensor(origins) and any(each is None or isinstance(each, SEVERAL) for each in origins):
        origins = [right_ids(each) for each in origins]
        if len(origins) == len(found):
            hits = [[each in right for each in row] for row, right in zip(found.tolist(), origins, strict=True)]
            return np.array(hits, dtype=bool).reshape(found.shape)
    wanted = to_numpy(origins if is_tensor(origins) else list(origins))
    if wanted.shape[:1] != found.shape[:1]:
        raise InvalidValueError(f"`pairs` must have an origin for each copy; got {len(wanted)} for {len(found)}.")
    return np.asarray(found == wanted[:, None], dtype=bool)


def _rate(name: str, value: float) -> float:
    if not 0 < float(value) < 1:
        raise InvalidValueError(f"`{name}` must lie between 0 and 1, such as 0.95; got {value!r}.")
    return float(value)
