"""Drift of dimensions: deviations of queries from their answers, then and now, by permutation tests."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ahop._core.blocks import blocks

Rows: TypeAlias = NDArray[Any]

What: TypeAlias = Literal["missing", "shift", "spread", "gain", "stuck"]

# How a dimension can move: the four numbers that are compared.
KINDS: tuple[What, ...] = ("missing", "shift", "spread", "gain")
# Permutations that the largest difference is compared with; as many more as a stricter rate asks for.
PERMUTATIONS, BEYOND_RATE = 999, 20
# Queries of either side that are compared: more find nothing that would matter.
MOST_ROWS = 4096
# Scores of one block of dimensions.
BLOCK_BYTES = 64 * 2**20
# A sensor is stuck if so many of its values are one and the same, and so few were before.
STUCK, NOT_STUCK = 0.8, 0.5
# What varies less than this, beside what varies most, does not vary.
LEAST = 1e-9
# Sizes that differ by less are equal.
ROUNDING = 1e-6
# Median absolute deviations of a normal distribution in its standard deviation.
NORMAL = 1.4826


@dataclass(frozen=True)
class Seen:
    """Queries (n, d), the stored patterns that they were answered by (n, d), and how sure these answers are (n,)."""

    values: Rows
    answers: Rows
    weights: Rows

    def __len__(self) -> int:
        return len(self.values)

    def rows(self, which: Any) -> "Seen":
        return Seen(self.values[which], self.answers[which], self.weights[which])

    def some(self) -> "Seen":
        """In an order of their own, whatever order they came in; evenly thinned where there are too many."""
        direction = np.random.default_rng(0).normal(size=self.values.shape[1])
        place = (np.nan_to_num(self.values.astype(np.float64)) @ direction).argsort(kind="stable")
        return self.rows(place[:: -(-len(place) // MOST_ROWS)])


@dataclass(frozen=True)
class Drift:
    """Drift of one dimension.

    Attributes:
        name: of the dimension.
        what: the number that has changed most: the share of values that are "missing"; the "shift", "spread" or "gain"
            of a value beside the stored one; or it is "stuck" at one value.
        before: that number, in the reference.
        now: and in the queries; of a stuck dimension the value that it is stuck at.
        size: of the change, in standard errors.
        p: how likely any dimension would seem to have changed so much, if none had.
    """

    name: str
    what: What
    before: float
    now: float
    size: float
    p: float

    def __str__(self) -> str:
        if self.what == "stuck":
            return f"{self.name} (stuck at {self.now:.3g})"
        if self.what == "missing":
            return f"{self.name} (missing {100 * self.before:.0f} % -> {100 * self.now:.0f} %)"
        return f"{self.name} ({self.what} {self.before:.2g} -> {self.now:.2g})"


def drift_between(then: Seen, now: Seen, names: Sequence[str], rate: float) -> tuple[Drift, ...]:
    """Drift of each dimension, largest first.

    If the queries of both sides come from one distribution, the smallest `p` is below a rate with at most that
    probability, however many dimensions there are and however they depend on each other: each difference is compared
    with the largest that there is if the rows of both sides are shuffled (Westfall and Young).

    Args:
        rate: at which `p` will be compared; the stricter, the more permutations.
    """
    then, now = then.some(), now.some()
    both = Seen(
        *(np.concatenate([getattr(side, part) for side in (then, now)]) for part in ("values", "answers", "weights"))
    )
    count, dtype = max(PERMUTATIONS, int(BEYOND_RATE / rate)), both.values.dtype
    order = np.random.default_rng(0).random((count, len(both)), np.float32).argsort(-1)[:, : len(then)]
    shuffled = np.zeros((1 + count, len(both)), dtype)
    shuffled[0, : len(then)] = 1
    np.put_along_axis(shuffled[1:], order, 1, -1)
    found, largest = [], np.zeros(count, dtype)
    for part in blocks(len(names), len(KINDS) * len(both) * both.values.itemsize, BLOCK_BYTES):
        apart = _apart(_scores(both.values[:, part], both.answers[:, part], both.weights), shuffled, len(then))
        found.append(apart[0].reshape(len(KINDS), -1))
        largest = np.maximum(largest, np.abs(apart[1:]).max(-1))
    sizes = np.abs(np.concatenate(found, axis=-1))
    kinds, most = sizes.argmax(0), sizes.max(0)
    p = (1 + (largest[:, None] >= most - ROUNDING).sum(0)) / (1 + count)
    told = [
        _told(then, now, place, name, KINDS[kinds[place]], float(most[place]), float(p[place]))
        for place, name in enumerate(names)
    ]
    return tuple(sorted(told, key=lambda each: -each.size))


def _scores(values: Rows, answers: Rows, weights: Rows) -> Rows:
    """Numbers (n, kinds * d) whose means are compared. Ranks, so that outliers count no more than others."""
    gaps = np.isnan(values).astype(values.dtype)
    deviation, stored = _ranks(values - answers), _ranks(answers)
    of_sure = np.stack([deviation, np.abs(deviation), deviation * stored])
    known = ~np.isnan(of_sure)
    share, of_sure = weights.astype(values.dtype)[:, None] * known, np.where(known, of_sure, 0)
    mean = (share * of_sure).sum(1, keepdims=True) / np.maximum(share.sum(1, keepdims=True), LEAST)
    scores = np.concatenate([(gaps - gaps.mean(0))[None], share * (of_sure - mean)])
    return scores.transpose(1, 0, 2).reshape(len(values), -1)


def _apart(scores: Rows, first: Rows, count: int) -> Rows:
    """By how many standard errors the mean of the other rows is above that of the first, (splits, columns)."""
    others = len(scores) - count
    variance = scores.var(0)
    error = np.sqrt(variance * len(scores) / max(1, len(scores) - 1) * (1 / count + 1 / others))
    varies = variance > LEAST * max(float(variance.max()), 1e-30)
    of_first = first @ scores
    difference = (scores.sum(0) - of_first) / others - of_first / count
    return np.where(varies, difference / np.where(varies, error, 1), 0)


def _ranks(values: Rows) -> Rows:
    """Ranks within each column (n, d), from -1/2 to 1/2, equals in their middle; NaN where missing."""
    found = np.full_like(values, np.nan)
    for column, ranks in zip(values.T, found.T, strict=True):
        known = ~np.isnan(column)
        rising = np.sort(column[known])
        below, upto = (np.searchsorted(rising, column[known], side) for side in ("left", "right"))
        ranks[known] = (below + upto) / (2 * max(1, len(rising))) - 0.5
    return found


def _told(then: Seen, now: Seen, place: int, name: str, what: What, size: float, p: float) -> Drift:
    before, after = (_number(side, place, what) for side in (then, now))
    common, share = _most_common(now.values[:, place])
    if what != "missing" and share >= STUCK and _most_common(then.values[:, place])[1] < NOT_STUCK:
        what, after = "stuck", common
    return Drift(name, what, before, after, size, p)


def _number(seen: Seen, place: int, what: What) -> float:
    """That which a kind of change is told by."""
    values, answers = (each[:, place].astype(np.float64) for each in (seen.values, seen.answers))
    if what == "missing":
        return float(np.isnan(values).mean())
    known = ~np.isnan(values + answers)
    values, answers, weights = values[known], answers[known], seen.weights[known].astype(np.float64)
    deviation = values - answers
    middle = _median(deviation, weights)
    if what == "shift":
        return middle
    if what == "spread":
        return NORMAL * _median(np.abs(deviation - middle), weights)
    total = max(float(weights.sum()), LEAST)
    centered = answers - (weights * answers).sum() / total
    power = (weights * np.square(centered)).sum()
    return float((weights * centered * values).sum() / power) if power > 0 else 1.0


def _median(values: Rows, weights: Rows) -> float:
    if not len(values):
        return float("nan")
    order = values.argsort(kind="stable")
    reached = weights[order].cumsum()
    return float(values[order[min(int((reached < reached[-1] / 2).sum()), len(values) - 1)]])


def _most_common(values: Rows) -> tuple[float, float]:
    """The value that comes most often, and its share of those that were observed."""
    known = values[~np.isnan(values)]
    if not len(known):
        return float("nan"), 0.0
    found, counts = np.unique(known, return_counts=True)
    return float(found[counts.argmax()]), float(counts.max()) / len(known)
