"""Fit additive similarities: log-odds of pairs of values, by counting."""

from dataclasses import dataclass
from functools import cached_property
from itertools import islice, product

import torch
from torch import Tensor

from ahop._core.missing import midpoints, quantiles
from ahop._core.tensors import principal_directions
from ahop.fitting.corruption.entries import Entries
from ahop.fitting.corruption.gaps import Gaps
from ahop.fitting.settings import DEFAULT, MixtureSettings
from ahop.similarities.additive import AdditiveSimilarity

ADDITIVE_FOLDS = 4
# How finely the values of queries and of patterns are told apart.
QUERY_KNOTS, PATTERN_KNOTS = 32, 16
# Widths of the smoothing, in knots, and how likely two values meet whatever the table says.
WIDTHS = (0.0, 0.5, 1.0, 2.0, 4.0)
CHANCES = (0.003, 0.03)
# Counts of one dimension weigh as much as those of all when it has been seen so often.
OWN_PSEUDO_COUNTS = (30.0, 100.0, 300.0, 1000.0)


@dataclass(frozen=True)
class Knots:
    """Knots at which values of each dimension are told apart: queries (d, q) and patterns (d, p)."""

    queries: Tensor
    patterns: Tensor


def count_pairs(
    originals: Tensor,
    copies: Tensor,
    weights: Tensor | None = None,
    bias: Tensor | None = None,
    settings: MixtureSettings = DEFAULT.mixture,
) -> "Counts":
    r"""Count the pairs of values of rows (m, d) at the knots under which held-out pairs are most likely.

    $\phi(\xi_i, x_i) = \log p(\xi_i, x_i) - \log p(\xi_i)\,p(x_i)$ is then made of smoothed counts. Knots are common to
    all dimensions, in units of each, or at its quantiles.

    Args:
        bias: what to take off the copies before dimensions are compared; default the median difference.
    """
    pairs = _Pairs(
        originals.double(),
        copies.double(),
        torch.ones(len(copies), dtype=torch.float64) if weights is None else weights.double(),
        copies.dtype,
        settings,
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
    settings: MixtureSettings

    @cached_property
    def entries(self) -> Entries:
        return Entries(self.originals.mT.contiguous(), self.copies.mT.contiguous())

    @cached_property
    def gaps(self) -> Gaps:
        return Gaps(self.originals, self.copies, self.settings)


@dataclass(frozen=True)
class _Smoothing:
    across: float
    along: float
    chance: float
    value: float = -float("inf")


class Counts:
    """Counts of values at each pair of knots, by fold; and the smoothing that predicts the other folds best."""

    def __init__(self, pairs: _Pairs, knots: Knots) -> None:
        self.pairs, self.knots = pairs, knots
        self.by_fold = self._counted(per_dimension=False).squeeze(1)
        self.best = _best_smoothing(self.by_fold)

    @cached_property
    def by_dimension(self) -> Tensor:
        """The counts of each fold and dimension, (folds, d, q, p)."""
        return self._counted(per_dimension=True)

    def _counted(self, per_dimension: bool) -> Tensor:
        """Each entry is shared out to the two knots on either side of both values."""
        entries = self.pairs.entries
        dimensions = entries.shape[0]
        kinds = dimensions if per_dimension else 1
        fold = entries.of_pairs_as(torch.arange(entries.shape[1]) % ADDITIVE_FOLDS)
        block = fold * kinds + entries.of_dimensions_as(torch.arange(dimensions)) if per_dimension else fold
        weights = entries.of_pairs(self.pairs.weights)
        asked, asked_share = entries.between(self.knots.queries, entries.copies)
        stored, stored_share = entries.between(self.knots.patterns, entries.originals)
        cell = (block * QUERY_KNOTS + asked) * PATTERN_KNOTS + stored
        counts = torch.zeros(ADDITIVE_FOLDS * kinds * QUERY_KNOTS * PATTERN_KNOTS, dtype=torch.float64)
        for across, of_asked in ((0, weights * (1 - asked_share)), (PATTERN_KNOTS, weights * asked_share)):
            for along, share in ((0, of_asked * (1 - stored_share)), (1, of_asked * stored_share)):
                counts += torch.bincount((cell + across + along).flatten(), share.flatten(), len(counts))
        return counts.view(ADDITIVE_FOLDS, kinds, QUERY_KNOTS, PATTERN_KNOTS)

    def similarity(self, rank: int) -> AdditiveSimilarity:
        """The shared table, and `rank - 1` more that tell most of how the dimensions differ."""
        similarity = AdditiveSimilarity(len(self.knots.queries), QUERY_KNOTS, PATTERN_KNOTS, rank).double()
        similarity.query_places.copy_(self.knots.queries)
        similarity.pattern_places.copy_(self.knots.patterns)
        shared = _table(self.by_fold.sum(0), self.best)
        with torch.no_grad():
            similarity.tables.zero_()[0] = shared
            if rank > 1:
                apart = self._deviations(shared).flatten(1)
                kept = min(rank - 1, *apart.shape)
                found = principal_directions(apart, kept)
                lengths = found.norm(dim=0).clamp_min(1e-300)
                similarity.tables[1 : 1 + kept] = (found / lengths).mT.view(kept, *shared.shape)
                similarity.mixing[:, 1 : 1 + kept] = apart @ (found / lengths)
        self.pairs.gaps.fit(similarity.missingness, self.pairs.weights)
        return similarity.to(self.pairs.dtype)

    def _deviations(self, shared: Tensor) -> Tensor:
        """By how much the table of each dimension differs from that of all, (d, q, p)."""
        halves = [self.by_dimension[start::2].sum(0) for start in range(2)]
        pseudo = max(OWN_PSEUDO_COUNTS, key=lambda count: self._own_held_out(halves, count))
        return self._own_tables(halves[0] + halves[1], pseudo) - shared

    def _own_tables(self, counts: Tensor, pseudo: float) -> Tensor:
        """Tables (d, q, p) of each dimension, its counts backed by those of all."""
        shared = self.by_fold.sum(0)
        return _table(counts + pseudo * shared / shared.sum().clamp_min(1e-9), self.best)

    def _own_held_out(self, counts: list[Tensor], pseudo: float) -> float:
        crossed = zip(counts, reversed(counts), strict=True)
        return sum(float((unseen * self._own_tables(seen, pseudo)).sum()) for seen, unseen in crossed)


def _best_smoothing(by_fold: Tensor) -> _Smoothing:
    """All are tried at once: each fold's counts (q, p), under the tables of the other folds."""
    total = by_fold.sum(0)
    rest = total - by_fold
    across, along = (torch.stack([_smoother(size, width) for width in WIDTHS]) for size in total.shape)
    smoothed = across[:, None, None] @ rest @ along.mT[None, :, None]
    ratio = _ratio(smoothed)
    tables = torch.stack([torch.log((1 - chance) * ratio + chance) for chance in CHANCES], dim=2)
    values = (tables * by_fold).sum((-3, -2, -1)) / total.sum().clamp_min(1e-9)
    place = int(values.argmax())
    choices = product(WIDTHS, WIDTHS, CHANCES)
    return _Smoothing(*next(islice(choices, place, None)), float(values.flatten()[place]))


def _table(counts: Tensor, smoothing: _Smoothing) -> Tensor:
    """Log of how much more often values meet than by chance, from counts (..., q, p)."""
    across, along = _smoother(counts.shape[-2], smoothing.across), _smoother(counts.shape[-1], smoothing.along)
    return torch.log((1 - smoothing.chance) * _ratio(across @ counts @ along.mT) + smoothing.chance)


def _ratio(counts: Tensor) -> Tensor:
    joint = counts / counts.sum((-2, -1), keepdim=True).clamp_min(1e-12)
    alone = joint.sum(-1, keepdim=True) * joint.sum(-2, keepdim=True)
    # Knots that nothing came near say nothing.
    return torch.where(alone > 1e-12, joint / alone.clamp_min(1e-12), 1)


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
    if bool(torch.isnan(values).all()):
        return torch.linspace(-1, 1, knots, dtype=torch.float64)
    by_count = quantiles(values.unsqueeze(-1), torch.linspace(0.005, 0.995, knots, dtype=torch.float64)).squeeze(0)
    even = torch.linspace(float(by_count[0]), float(by_count[-1]), knots, dtype=torch.float64)
    return 0.5 * (by_count + even)


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
