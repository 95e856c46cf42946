"""Learning an additive table from pairs by counting: how much more often do two values meet than by chance?"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import product

import numpy as np
import torch
from torch import Tensor

from ahop._observed import midpoints, quantiles
from ahop.fitting.missingness import fit_missingness
from ahop.similarities.additive import AdditiveSimilarity, hats

FOLDS = 4
# How finely the values of queries and of patterns are told apart.
QUERY_KNOTS, PATTERN_KNOTS = 32, 16
# Widths of the smoothing, in knots, and how likely two values meet whatever the table says.
WIDTHS = (0.0, 0.5, 1.0, 2.0, 4.0)
CHANCES = (0.003, 0.03)
# Counts of one dimension weigh as much as those of all when it has been seen so often.
OWN_PSEUDO_COUNTS = (30.0, 100.0, 300.0, 1000.0)


@dataclass(frozen=True)
class Knots:
    """Where the values of each dimension are told apart: queries (d, q) and patterns (d, p)."""

    queries: Tensor
    patterns: Tensor


def fit_additive(
    originals: Tensor, copies: Tensor, weights: Tensor | None = None, bias: Tensor | None = None, rank: int = 1
) -> AdditiveSimilarity:
    r"""$\phi(\xi_i, x_i) = \log p(\xi_i, x_i) - \log p(\xi_i)\,p(x_i)$ from smoothed counts of pairs of rows (m, d).

    Args:
        bias: what to take off the copies before dimensions are compared; default the median difference.
        rank: number of tables; beyond one they say how dimensions differ.
    """
    return count_pairs(originals, copies, weights, bias).similarity(rank)


def count_pairs(
    originals: Tensor, copies: Tensor, weights: Tensor | None = None, bias: Tensor | None = None
) -> "Counts":
    """How often values meet, at the knots under which held-out pairs are most likely.

    Knots are common to all dimensions, in units of each, or at its quantiles.
    """
    pairs = _Pairs(
        originals.double(),
        copies.double(),
        torch.ones(len(copies), dtype=torch.float64) if weights is None else weights.double(),
        copies.dtype,
    )
    if bias is None:
        bias = (pairs.copies - pairs.originals).nanmedian(0).values.nan_to_num(0)
    tried = [Counts(pairs, knots) for knots in _knots(pairs.originals, pairs.copies, bias.double())]
    return max(tried, key=lambda counts: counts.best.value)


@dataclass(frozen=True)
class _Pairs:
    """Rows (m, d) in float64, their weights (m,), and the dtype that they came in."""

    originals: Tensor
    copies: Tensor
    weights: Tensor
    dtype: torch.dtype


@dataclass(frozen=True)
class _Smoothing:
    across: float
    along: float
    chance: float
    value: float = -float("inf")


class Counts:
    """How often the values at each pair of knots met, by fold; and the smoothing that predicts the other folds best."""

    def __init__(self, pairs: _Pairs, knots: Knots) -> None:
        self.pairs, self.knots = pairs, knots
        asked = hats(knots.queries, pairs.copies) * pairs.weights[:, None, None]
        stored = hats(knots.patterns, pairs.originals)
        self.by_dimension = torch.stack(
            [torch.einsum("mdq,mdp->dqp", asked[fold::FOLDS], stored[fold::FOLDS]) for fold in range(FOLDS)]
        )
        self.by_fold = self.by_dimension.sum(1)
        choices = (_Smoothing(*choice) for choice in product(WIDTHS, WIDTHS, CHANCES))
        self.best = _best(choices, self._held_out)

    def similarity(self, rank: int) -> AdditiveSimilarity:
        """The shared table, and `rank - 1` more that tell most of how the dimensions differ."""
        similarity = AdditiveSimilarity(self.by_dimension.shape[1], QUERY_KNOTS, PATTERN_KNOTS, rank).double()
        similarity.query_places.copy_(self.knots.queries)
        similarity.pattern_places.copy_(self.knots.patterns)
        shared = _table(self.by_fold.sum(0), self.best)
        with torch.no_grad():
            similarity.tables.zero_()[0] = shared
            if rank > 1:
                found = torch.linalg.svd(self._deviations(shared).flatten(1), full_matrices=False)
                kept = min(rank - 1, len(found.S))
                similarity.mixing[:, 1 : 1 + kept] = found.U[:, :kept] * found.S[:kept]
                similarity.tables[1 : 1 + kept] = found.Vh[:kept].view(kept, *shared.shape)
        fit_missingness(similarity.missingness, self.pairs.originals, self.pairs.copies, self.pairs.weights)
        return similarity.to(self.pairs.dtype)

    def _deviations(self, shared: Tensor) -> Tensor:
        """By how much the table of each dimension differs from that of all, (d, q, p)."""
        halves = [self.by_dimension[start::2].sum(0) for start in range(2)]
        pseudo = max(OWN_PSEUDO_COUNTS, key=lambda count: self._own_held_out(halves, count))
        return self._own_tables(halves[0] + halves[1], pseudo) - shared

    def _held_out(self, smoothing: _Smoothing) -> float:
        total = self.by_fold.sum(0)
        values = [(counts * _table(total - counts, smoothing)).sum() for counts in self.by_fold]
        return float(torch.stack(values).sum() / total.sum().clamp_min(1e-9))

    def _own_tables(self, counts: Tensor, pseudo: float) -> Tensor:
        """Tables (d, q, p) of each dimension, its counts backed by those of all."""
        shared = self.by_fold.sum(0)
        shared = shared / shared.sum().clamp_min(1e-9)
        return torch.stack([_table(own + pseudo * shared, self.best) for own in counts])

    def _own_held_out(self, counts: list[Tensor], pseudo: float) -> float:
        crossed = zip(counts, reversed(counts), strict=True)
        return sum(float((unseen * self._own_tables(seen, pseudo)).sum()) for seen, unseen in crossed)


def _best(choices: Iterable[_Smoothing], value: Callable[[_Smoothing], float]) -> _Smoothing:
    tried = (_Smoothing(each.across, each.along, each.chance, value(each)) for each in choices)
    return max(tried, key=lambda each: each.value)


def _table(counts: Tensor, smoothing: _Smoothing) -> Tensor:
    """Log of how much more often values meet than by chance, from counts (q, p)."""
    counts = _smoother(counts.shape[0], smoothing.across) @ counts @ _smoother(counts.shape[1], smoothing.along).mT
    joint = counts / counts.sum().clamp_min(1e-12)
    alone = joint.sum(1, keepdim=True) * joint.sum(0, keepdim=True)
    # Knots that nothing came near say nothing.
    ratio = torch.where(alone > 1e-12, joint / alone.clamp_min(1e-12), 1)
    return torch.log((1 - smoothing.chance) * ratio + smoothing.chance)


def _smoother(knots: int, width: float) -> Tensor:
    if width == 0:
        return torch.eye(knots, dtype=torch.float64)
    place = torch.arange(knots, dtype=torch.float64)
    weights = torch.exp(-0.5 * ((place.unsqueeze(-1) - place) / width).square())
    return weights / weights.sum(0, keepdim=True)


def _knots(originals: Tensor, copies: Tensor, bias: Tensor) -> list[Knots]:
    """Common to all dimensions once the bias is off; in the units of each; at the quantiles of each."""
    queries, patterns = QUERY_KNOTS, PATTERN_KNOTS
    common = Knots(bias.unsqueeze(-1) + _grid((copies - bias).flatten(), queries), _grid(originals.flatten(), patterns))
    places = [_spread(values) for values in (copies, originals)]
    scaled = [(values - place) / spread for values, (place, spread) in zip((copies, originals), places, strict=True)]
    units = Knots(
        *(
            place.unsqueeze(-1) + spread.unsqueeze(-1) * _grid(values.flatten(), count)
            for values, (place, spread), count in zip(scaled, places, (queries, patterns), strict=True)
        )
    )
    ranks = Knots(quantiles(copies, midpoints(queries)), quantiles(originals, midpoints(patterns)))
    dimensions = copies.shape[1]
    return [
        Knots(_rising(each.queries.expand(dimensions, -1)), _rising(each.patterns.expand(dimensions, -1)))
        for each in (common, units, ranks)
    ]


def _grid(values: Tensor, knots: int) -> Tensor:
    """Half way between even spacing and even counts: fine where the values are, without holes elsewhere."""
    known = values[~torch.isnan(values)]
    if not len(known):
        return torch.linspace(-1, 1, knots, dtype=torch.float64)
    steps = torch.linspace(0.005, 0.995, knots, dtype=torch.float64)
    quantiles = torch.from_numpy(np.quantile(known.numpy(), steps.numpy()))
    even = torch.linspace(float(quantiles[0]), float(quantiles[-1]), knots, dtype=torch.float64)
    return 0.5 * (quantiles + even)


def _spread(values: Tensor) -> tuple[Tensor, Tensor]:
    """Median and mean distance from it, by dimension; one spread for those without any."""
    place = values.nanmedian(0).values.nan_to_num(0)
    spread = (values - place).abs().nanmean(0).nan_to_num(0)
    return place, torch.where(spread > 0, spread, spread.mean().clamp_min(1e-12))


def _rising(places: Tensor) -> Tensor:
    """Knots pushed apart where values repeat, so that each hat has a foot."""
    least = 1e-6 * (places[:, -1:] - places[:, :1]).clamp_min(1e-6 * places.abs().amax().clamp_min(1e-6))
    steps = torch.arange(places.shape[1], dtype=torch.float64)
    return torch.cummax(places - steps * least, dim=1).values + steps * least
