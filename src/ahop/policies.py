"""The `policy` function: from where on answers can be relied on."""

from collections.abc import Mapping, Sequence
from math import ceil, floor, log
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ahop._checks import check_choice
from ahop._typing import Entries, RowsLike
from ahop.decisions import Policy, confidence_of, is_bounded, share_of, upper_bound
from ahop.errors import InvalidTypeError, InvalidValueError
from ahop.recaller import Recall, Recaller
from ahop.variants.base import Pairs

# Answers that are looked through for the origin, where sets of them are to hold it.
SET_ANSWERS = 64
COSTS = ("wrong", "ask")


def policy(
    memory: Recaller,
    pairs: Pairs | tuple[Entries, RowsLike],
    *,
    precision: float | None = None,
    false_accept: float | None = None,
    costs: Mapping[str, float | int] | None = None,
    coverage: float | None = None,
    strangers: RowsLike | None = None,
    groups: Sequence[object] | None = None,
    confidence: float = 0.95,
) -> Policy:
    """From where on answers are accepted, so that what is asked for holds; give one of the four.

    What is promised holds for queries such as these, with the confidence that is asked for. What so few pairs cannot
    promise is refused: no error among n bounds the rate of errors only by about 3 / n.

    Args:
        memory: whatever recalls.
        pairs: (origins, copies) that the memory was not fitted to; origins are rows, or labels where it has labels.
        precision: of the accepted answers at least this share is right.
        false_accept: of the queries of no stored pattern at most this share is accepted; needs `strangers`.
        costs: what a "wrong" answer and an "ask" of a person cost; probabilities are taken at their word.
        coverage: sets of answers hold the origin with this probability (split conformal).
        strangers: queries of no stored pattern, in the share in which they come.
        groups: where each copy comes from, if the memory was fitted with groups.
    """
    asked = {"precision": precision, "false_accept": false_accept, "costs": costs, "coverage": coverage}
    given = {name: value for name, value in asked.items() if value is not None}
    if len(given) != 1:
        raise InvalidTypeError(f"Give one of {', '.join(f'`{name}`' for name in asked)}; got {len(given)} of them.")
    judge = _Judge(memory, pairs, strangers, groups, _rate("confidence", confidence))
    if precision is not None:
        return judge.by_precision(_rate("precision", precision))
    if false_accept is not None:
        return judge.by_false_accepts(_rate("false_accept", false_accept))
    if costs is not None:
        return judge.by_costs(costs)
    assert coverage is not None
    return judge.by_coverage(_rate("coverage", coverage))


class _Judge:
    """Answers to pairs that were held out, and to queries of no stored pattern."""

    def __init__(
        self,
        memory: Recaller,
        pairs: Pairs | tuple[Entries, RowsLike],
        strangers: RowsLike | None,
        groups: Sequence[object] | None,
        confidence: float,
    ) -> None:
        origins, copies = (pairs.origins, pairs.queries) if isinstance(pairs, Pairs) else pairs
        self.confidence = confidence
        self.answers = memory.recall(copies, SET_ANSWERS, groups=groups)
        self.is_origin = _is_origin(self.answers, origins, isinstance(pairs, Pairs))
        self.sure = _sure(self.answers)
        self.right = self.is_origin[:, 0]
        self.strange = None if strangers is None else _sure(memory.recall(strangers, 1))

    def by_precision(self, precision: float) -> Policy:
        """The loosest threshold in a row of them, from strict to loose, all of which keep the promise."""
        sure = self.sure if self.strange is None else torch.cat([self.sure, self.strange])
        right = torch.zeros(len(sure), dtype=torch.bool)
        right[: len(self.right)] = self.right
        order = sure.argsort(descending=True, stable=True)
        wrong = (~right[order]).cumsum(0)
        needed = ceil(log(1 - self.confidence) / log(precision))
        self._check_enough(len(order), needed, f"a precision of {precision:g}")
        counts = [*range(max(needed, len(order) // 20), len(order), max(1, len(order) // 100)), len(order)]
        accepted = 0
        for count in counts:
            if not is_bounded(int(wrong[count - 1]), count, 1 - precision, self.confidence):
                break
            accepted = count
        if not accepted:
            bound = upper_bound(int(wrong[counts[0] - 1]), counts[0], self.confidence)
            raise InvalidValueError(
                f"A precision of {precision:g} cannot be promised: of the {counts[0]} surest answers "
                f"{int(wrong[counts[0] - 1])} were wrong, so that up to {100 * bound:.1f} % may be. Ask for less, or "
                "give more pairs."
            )
        promise = f"At least {100 * precision:g} % of the accepted answers are right"
        return self._policy(float(sure[order[accepted - 1]]), promise)

    def by_false_accepts(self, rate: float) -> Policy:
        if self.strange is None:
            raise InvalidTypeError("`false_accept` needs `strangers=`: queries that come from no stored pattern.")
        needed = ceil(log(1 - self.confidence) / log(1 - rate))
        self._check_enough(len(self.strange), needed, f"a false-accept rate of {rate:g}", "strangers")
        surest, allowed = self.strange.sort(descending=True).values, 0
        while allowed + 1 < len(surest) and is_bounded(allowed + 1, len(surest), rate, self.confidence):
            allowed += 1
        threshold = float(torch.nextafter(surest[allowed], torch.tensor(torch.inf, dtype=torch.float64)))
        return self._policy(threshold, f"At most {100 * rate:g} % of the queries of no stored pattern are accepted")

    def by_costs(self, costs: Mapping[str, float | int]) -> Policy:
        for name in costs:
            check_choice("costs", name, COSTS)
        wrong, ask = (float(costs.get(name, 0.0)) for name in COSTS)
        if not 0 < ask < wrong:
            raise InvalidValueError(
                f"`costs` must be those of a wrong answer, and less for asking; got {dict(costs)}. Write "
                '`costs={"wrong": 20, "ask": 1}`.'
            )
        return self._policy(1 - ask / wrong, f"A wrong answer costs {wrong:g}, asking costs {ask:g}")

    def by_coverage(self, coverage: float) -> Policy:
        count = len(self.right)
        self._check_enough(count, ceil(1 / (1 - coverage)) - 1, f"a coverage of {coverage:g}")
        of_origin = (torch.as_tensor(self.answers.posterior).double() * self.is_origin).sum(-1)
        place = floor((count + 1) * (1 - coverage))
        threshold = float(of_origin.sort().values[max(0, place - 1)])
        held = self._policy(1.0, f"Sets of answers hold the origin in {100 * coverage:g} % of the cases")
        return Policy(held.accept_from, held.unknown_from, threshold, held.promise)

    def _policy(self, threshold: float, promise: str) -> Policy:
        accepted = share_of(int((self.sure >= threshold).sum()), len(self.sure), self.confidence)
        return Policy(threshold, promise=promise, accepted=accepted)

    def _check_enough(self, count: int, needed: int, promise: str, of: str = "pairs") -> None:
        if count < needed:
            raise InvalidValueError(
                f"{count} {of} cannot promise {promise} with a confidence of {self.confidence:g}, were all of them "
                f"right; at least {needed} are needed."
            )


def _sure(answers: Recall[Any]) -> Tensor:
    unknown = None if answers.unknown is None else torch.as_tensor(answers.unknown)
    return confidence_of(torch.as_tensor(answers.posterior), unknown)


def _is_origin(answers: Recall[Any], origins: Entries, are_rows: bool) -> Tensor:
    """Which answers (b, k) are the origin."""
    wanted: NDArray[Any] = np.asarray(origins.cpu() if isinstance(origins, Tensor) else list(origins))
    given = answers.indices if are_rows or answers.labels is None else answers.labels
    found: NDArray[Any] = np.asarray(given.cpu() if isinstance(given, Tensor) else given)
    if wanted.shape != found.shape[:1]:
        raise InvalidValueError(f"`pairs` must have an origin for each copy; got {len(wanted)} for {len(found)}.")
    return torch.from_numpy(np.asarray(found == wanted[:, None], dtype=np.bool_))


def _rate(name: str, value: float) -> float:
    if not 0 < float(value) < 1:
        raise InvalidValueError(f"`{name}` must lie between 0 and 1, such as 0.95; got {value!r}.")
    return float(value)
