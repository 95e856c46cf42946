"""Any sum over dimensions, each addend cut to its leading terms."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor
from typing_extensions import override

from ahop._core.blocks import CACHE_BYTES, blocks
from ahop._core.checks import check_count, check_kind
from ahop._core.missing import holds_nan, observed
from ahop._core.typing import Patterns, PerDimension, Queries
from ahop.errors import ShapeError
from ahop.scale.liftings.base import Lifting, complete, refuse_gaps, scaled_up
from ahop.similarities.base import DecomposableSimilarity

# A value finds its cell by arithmetic; of the places in its cell and the one before it, it passes those below it.
CELLS = 1024
# Where more places than this share a cell, a search by halves is faster.
MOST_STEPS = 6


@dataclass(frozen=True)
class Placed:
    """Places below values (d, n), and the fraction of the way to the next one, in [0, 1]."""

    lower: Tensor
    share: Tensor


class Places:
    """A grid (d, g) of rising places, ready to be looked up.

    In float32, in which the edges of levels are kept: a value that one was made of must not pass it by its rounding.
    """

    def __init__(self, grid: Tensor) -> None:
        self.grid = grid.float().contiguous()
        self.count = self.grid.shape[1]
        ends = self.grid[:, -1:] - self.grid[:, :1]
        self._scale = (CELLS / ends).where(ends > 0, 0.0).nan_to_num(0, 0, 0)
        gaps = self.grid.diff(dim=-1)
        self._slopes = torch.nn.functional.pad((1 / gaps).where(gaps > 0, 0.0), (0, 1)).nan_to_num(0, 0, 0)
        cells = self._cells(self.grid)
        before = (cells.unsqueeze(1) < torch.arange(CELLS).unsqueeze(-1) - 1).sum(-1)  # places two cells below
        through = (cells.unsqueeze(1) <= torch.arange(CELLS).unsqueeze(-1) + 1).sum(-1)
        self._start = (before - 1).clamp_(0, max(0, self.count - 2)).int()
        self._steps = int((through - before).max()) if self.count > 1 else 0

    def find(self, values: Tensor) -> Placed:
        """Locate values (d, n); those beyond the grid are at its ends, and NaN is at the place behind the last."""
        values = values.float()
        gaps = values.isnan()
        if self.count == 1:
            return Placed(gaps.int(), torch.zeros_like(values))
        lower = self._search(values) if self._steps > MOST_STEPS else self._walk(values)
        offsets = torch.arange(len(self.grid), dtype=torch.int32).unsqueeze(-1) * self.count
        low, slope = _take(self.grid, lower + offsets), _take(self._slopes, lower + offsets)
        share = ((values - low) * slope).clamp_(0, 1)
        if bool(gaps.any()):
            return Placed(lower.masked_fill_(gaps, self.count), share.masked_fill_(gaps, 0))
        return Placed(lower, share)

    def _search(self, values: Tensor) -> Tensor:
        """The slow truth: the last place below the value."""
        found = torch.searchsorted(self.grid, values.contiguous(), out_int32=True)
        return found.sub_(1).clamp_(0, self.count - 2)

    def _walk(self, values: Tensor) -> Tensor:
        offsets = torch.arange(len(self.grid), dtype=torch.int32).unsqueeze(-1)
        lower = _take(self._start, self._cells(values) + offsets * CELLS)
        for _ in range(self._steps):
            nexts = _take(self.grid, lower + (offsets * self.count + 1))
            lower += nexts < values
            lower.clamp_(max=self.count - 2)
        return lower

    def _cells(self, values: Tensor) -> Tensor:
        cells = (values - self.grid[:, :1]) * self._scale
        return cells.nan_to_num_(0, CELLS, 0).clamp_(0, CELLS - 1).int()


def _take(table: Tensor, indices: Tensor) -> Tensor:
    return table.flatten().index_select(0, indices.flatten()).view_as(indices)


# A place where no pattern was seen counts this much of the average one: it may be met later.
LEAST_WEIGHT = 1e-3
# Below this share of the largest, a term is the rounding of others.
LEAST_ENERGY = 1e-13


@final
class FactoredLifting(Lifting):
    r"""$\phi_i(\xi_i, x_i) \approx \sum_{j \le r_i} a_{ij}(x_i)\, c_{ij}(\xi_i)$ for each addend of a similarity.

    The addend of a query is read exactly at some places of the stored value and projected on the leading terms;
    a stored value is put between its two places. One more place stands for what was not observed. The terms are
    singular vectors under the distribution of both values, after the mean over the patterns, a number for each
    query, is off.

    Args:
        places: how many in each dimension.
        ranks: the number of terms of each dimension.
    """

    grid: Tensor
    tables: Tensor
    maps: Tensor

    def __init__(self, similarity: DecomposableSimilarity, dimensions: int, places: int, ranks: Sequence[int]) -> None:
        super().__init__()
        self.similarity = check_kind("similarity", similarity, DecomposableSimilarity)
        self.dimensions, self.places = check_count("dimensions", dimensions), check_count("places", places)
        self.ranks = [int(rank) for rank in ranks]
        if len(self.ranks) != dimensions or min(self.ranks) < 0 or max(self.ranks) > places + 1:
            raise ShapeError(f"`ranks` must be {dimensions} numbers in 0..{places + 1}; got {self.ranks}.")
        self.size, most = sum(self.ranks), max(self.ranks)
        self.register_buffer("grid", torch.zeros(dimensions, places, dtype=torch.float64))
        self.register_buffer("tables", torch.zeros(dimensions, places + 1, most, dtype=torch.float64))
        self.register_buffer("maps", torch.zeros(dimensions, places + 1, most, dtype=torch.float64))

    @override
    def configuration(self) -> dict[str, object]:
        return {
            "similarity": self.similarity,
            "dimensions": self.dimensions,
            "places": self.places,
            "ranks": self.ranks,
        }

    @override
    def _lift_patterns(self, patterns: Patterns) -> Tensor:
        if not self.similarity.missing_is_evidence:
            refuse_gaps(patterns)
        # Term by term in rows: what is looked up and written stays in the caches.
        tables = self.tables.to(patterns).mT.contiguous()  # (d, r, places + 1)
        steps = torch.nn.functional.pad(tables[..., 1 : self.places] - tables[..., : self.places - 1], (0, 2))
        lifted, places = patterns.new_empty(len(patterns), self.size), Places(self.grid)
        for rows in blocks(len(patterns), self.size * patterns.element_size(), CACHE_BYTES // 2):
            placed = places.find(patterns[rows].mT.contiguous())
            shares = placed.share.to(patterns)
            part = patterns.new_empty(self.size, rows.stop - rows.start)
            first = 0
            for dimension, rank in enumerate(self.ranks):
                lower, terms = placed.lower[dimension], part[first : first + rank]
                torch.index_select(tables[dimension, :rank], 1, lower, out=terms)
                terms.addcmul_(steps[dimension, :rank].index_select(1, lower), shares[dimension])
                first += rank
            lifted[rows] = part.mT
        return lifted

    @override
    def _lift_queries(self, queries: Queries) -> Tensor:
        kept = torch.arange(self.maps.shape[-1]) < torch.tensor(self.ranks).unsqueeze(-1)
        maps, lifted = self.maps.to(queries), queries.new_empty(len(queries), self.size)
        for rows in blocks(
            len(queries), 6 * self.dimensions * (self.places + 1) * queries.element_size(), 4 * CACHE_BYTES
        ):
            profiles = read_at(self.similarity, self.grid, queries[rows])  # (b, places, d)
            terms = torch.bmm(profiles.permute(2, 0, 1), maps)  # (d, b, r)
            lifted[rows] = terms.permute(1, 0, 2)[:, kept.to(queries.device)]
        return lifted if self.similarity.missing_is_evidence else scaled_up(lifted, queries)


@dataclass(frozen=True)
class Factors:
    """All terms of all dimensions, by falling energy in each: what they add to the mean square of a score."""

    similarity: DecomposableSimilarity
    grid: Tensor
    energies: Tensor
    tables: Tensor
    maps: Tensor

    def leading(self, count: int) -> FactoredLifting:
        """The so many terms of largest energy, at least one."""
        order = self.energies.flatten().argsort(descending=True)[: max(1, count)]
        chosen = torch.zeros_like(self.energies).flatten().scatter(0, order, 1.0).view_as(self.energies)
        ranks = chosen.sum(-1).long().tolist()
        dimensions, places = self.grid.shape
        lifting = FactoredLifting(self.similarity, dimensions, places, ranks)
        most = lifting.tables.shape[-1]
        lifting.grid.copy_(self.grid)
        lifting.tables.copy_((self.tables * chosen.unsqueeze(1))[..., :most])
        lifting.maps.copy_((self.maps * chosen.unsqueeze(1))[..., :most])
        return lifting

    def needed(self, error: float) -> int:
        """Number of terms that leave at most this root mean square, if the errors of dimensions are independent."""
        rest = self.energies.flatten().sort(descending=True).values.flip(0).cumsum(0).flip(0)
        return int((rest > error**2).sum())


@torch.no_grad()
def factor(similarity: DecomposableSimilarity, grid: Tensor, patterns: Patterns, queries: Queries) -> Factors:
    """The singular vectors of every addend, under the values that these patterns and queries have."""
    patterns, queries = patterns.double(), queries.double()
    values = read_at(similarity, grid, queries).permute(2, 0, 1)  # (d, q, places + 1)
    weights = shares(grid, patterns)
    weights = weights + LEAST_WEIGHT * weights.mean(-1, keepdim=True)
    if not similarity.missing_is_evidence:
        weights[:, -1] = 0
    weights = weights / weights.sum(-1, keepdim=True)
    root = weights.sqrt().unsqueeze(1)
    centered = (values - (values * weights.unsqueeze(1)).sum(-1, keepdim=True)) * root / max(1, len(queries)) ** 0.5
    squares, vectors = torch.linalg.eigh(centered.mT @ centered)
    squares, vectors = squares.flip(-1), vectors.flip(-1)
    squares = squares.where(squares > LEAST_ENERGY * squares.max(), 0.0)
    maps = root.mT * vectors
    maps = maps - weights.unsqueeze(-1) * maps.sum(1, keepdim=True)
    return Factors(similarity, grid, squares, vectors / root.mT.where(root.mT > 0, torch.inf), maps)


def read_at(similarity: DecomposableSimilarity, grid: Tensor, queries: Queries) -> PerDimension:
    """The addends (b, places + 1, d) of the queries at each place of the grid, and where nothing was stored."""
    stored = torch.cat([grid, grid.new_full((len(grid), 1), torch.nan)], dim=1).mT.to(queries)
    if similarity.missing_is_evidence:
        return similarity.per_dimension(stored, queries)
    values = similarity.per_dimension(stored[:-1], complete(queries))
    if holds_nan(queries):
        values = values * observed(queries).unsqueeze(1)
    return torch.nn.functional.pad(values, (0, 0, 0, 1))


def shares(grid: Tensor, patterns: Patterns) -> Tensor:
    """Share of the patterns that each place stands for, (d, places + 1)."""
    placed = Places(grid).find(patterns.mT)
    share, lower = placed.share.double(), placed.lower.long()
    total = grid.new_zeros(len(grid), grid.shape[1] + 1)
    upper = torch.where(share > 0, lower + 1, lower)
    return total.scatter_add_(1, lower, 1 - share).scatter_add_(1, upper, share)
