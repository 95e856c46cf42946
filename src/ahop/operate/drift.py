"""Drift of dimensions: deviations of queries from their answers, then and now, by permutation tests."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import torch
from torch import Generator, Tensor

from ahop._core.blocks import blocks

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

    values: Tensor
    answers: Tensor
    weights: Tensor

    def __len__(self) -> int:
        return len(self.values)

    def rows(self, which: Tensor) -> "Seen":
        return Seen(self.values[which], self.answers[which], self.weights[which])

    def some(self) -> "Seen":
        """In an order of their own, whatever order they came in; evenly thinned where there are too many."""
        direction = torch.randn(self.values.shape[1], generator=Generator().manual_seed(0), dtype=torch.float64)
        place = (self.values.double().nan_to_num(0) @ direction.to(self.values.device)).argsort(stable=True)
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


@torch.no_grad()
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
        *(torch.cat([getattr(side, part) for side in (then, now)]) for part in ("values", "answers", "weights"))
    )
    count = max(PERMUTATIONS, int(BEYOND_RATE / rate))
    order = torch.rand(count, len(both), generator=Generator().manual_seed(0)).argsort(-1)[:, : len(then)]
    shuffled = torch.zeros(count, len(both)).scatter_(1, order, 1.0).to(both.values)
    shuffled = torch.cat([_first(len(then), len(both)).to(both.values).unsqueeze(0), shuffled])
    found, largest = [], torch.zeros(count, device=both.values.device)
    for part in blocks(len(names), len(KINDS) * len(both) * both.values.element_size(), BLOCK_BYTES):
        apart = _apart(_scores(both.values[:, part], both.answers[:, part], both.weights), shuffled, len(then))
        found.append(apart[0].view(len(KINDS), -1))
        largest = torch.maximum(largest, apart[1:].abs().amax(-1))
    sizes = torch.cat(found, dim=-1).cpu()
    most = sizes.abs().max(0)
    p = (1 + (largest.cpu().unsqueeze(-1) >= most.values - ROUNDING).sum(0).double()) / (1 + count)
    told = [
        _told(then, now, place, name, KINDS[int(most.indices[place])], float(most.values[place]), float(p[place]))
        for place, name in enumerate(names)
    ]
    return tuple(sorted(told, key=lambda each: -each.size))


def _first(count: int, of: int) -> Tensor:
    return (torch.arange(of) < count).float()


def _scores(values: Tensor, answers: Tensor, weights: Tensor) -> Tensor:
    """Numbers (n, kinds * d) whose means are compared. Ranks, so that outliers count no more than others."""
    gaps = torch.isnan(values).to(values)
    deviation, stored = _ranks(values - answers), _ranks(answers)
    of_sure = torch.stack([deviation, deviation.abs(), deviation * stored])
    share = weights.to(values).unsqueeze(-1) * (~torch.isnan(of_sure)).to(values)
    of_sure = of_sure.nan_to_num(0)
    mean = (share * of_sure).sum(1, keepdim=True) / share.sum(1, keepdim=True).clamp_min(LEAST)
    scores = torch.cat([(gaps - gaps.mean(0)).unsqueeze(0), share * (of_sure - mean)])
    return scores.transpose(0, 1).reshape(len(values), -1)


def _apart(scores: Tensor, first: Tensor, count: int) -> Tensor:
    """By how many standard errors the mean of the other rows is above that of the first, (splits, columns)."""
    others = len(scores) - count
    variance = scores.var(0, correction=0)
    error = (variance * len(scores) / max(1, len(scores) - 1) * (1 / count + 1 / others)).sqrt()
    varies = variance > LEAST * variance.max().clamp_min(1e-30)
    of_first = first @ scores
    difference = (scores.sum(0) - of_first) / others - of_first / count
    return (difference / error.where(varies, 1)).masked_fill(~varies, 0)


def _ranks(values: Tensor) -> Tensor:
    """Ranks within each column (n, d), from -1/2 to 1/2, equals in their middle; NaN where missing."""
    rows = values.mT.contiguous()
    rising = rows.sort(-1).values  # what is missing is last
    counts = (~torch.isnan(rows)).sum(-1, keepdim=True)
    filled = rising.where(~torch.isnan(rising), torch.inf)
    below, upto = (torch.searchsorted(filled, rows.nan_to_num(0), right=right) for right in (False, True))
    rank = (below + upto).to(values) / (2 * counts.clamp_min(1)) - 0.5
    return rank.masked_fill(torch.isnan(rows), torch.nan).mT


def _told(then: Seen, now: Seen, place: int, name: str, what: What, size: float, p: float) -> Drift:
    before, after = (_number(side, place, what) for side in (then, now))
    common, share = _most_common(now.values[:, place])
    if what != "missing" and share >= STUCK and _most_common(then.values[:, place])[1] < NOT_STUCK:
        what, after = "stuck", common
    return Drift(name, what, before, after, size, p)


def _number(seen: Seen, place: int, what: What) -> float:
    """That which a kind of change is told by."""
    values, answers = seen.values[:, place].double(), seen.answers[:, place].double()
    if what == "missing":
        return float(torch.isnan(values).double().mean())
    known = ~torch.isnan(values + answers)
    values, answers, weights = values[known], answers[known], seen.weights[known].double()
    deviation = values - answers
    middle = _median(deviation, weights)
    if what == "shift":
        return middle
    if what == "spread":
        return NORMAL * _median((deviation - middle).abs(), weights)
    total = weights.sum().clamp_min(LEAST)
    centered = answers - (weights * answers).sum() / total
    power = (weights * centered.square()).sum()
    return float((weights * centered * values).sum() / power) if power > 0 else 1.0


def _median(values: Tensor, weights: Tensor) -> float:
    if not len(values):
        return float("nan")
    order = values.argsort()
    reached = weights[order].cumsum(0)
    return float(values[order[min(int((reached < reached[-1] / 2).sum()), len(values) - 1)]])


def _most_common(values: Tensor) -> tuple[float, float]:
    """The value that comes most often, and its share of those that were observed."""
    known = values[~torch.isnan(values)]
    if not len(known):
        return float("nan"), 0.0
    found, counts = torch.unique(known, return_counts=True)
    return float(found[counts.argmax()]), float(counts.max()) / len(known)
