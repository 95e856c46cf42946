"""A sum of learned tables: how much each pair of values speaks for a match."""

from typing import final

import torch
from torch import Tensor, nn
from typing_extensions import override

from ahop._core.blocks import blocks
from ahop._core.checks import check_count
from ahop._core.kernels.likelihoods import serves_tables, table_scores
from ahop._core.missing import observed
from ahop._core.missingness import Missingness
from ahop._core.tensors import block_diagonal
from ahop._core.typing import Coefficients, Features, Patterns, PerDimension, Queries, Scores
from ahop.similarities.base import DecomposableSimilarity, LinearSimilarity, over_leading_axes


@final
class AdditiveSimilarity(DecomposableSimilarity, LinearSimilarity):
    r"""$s = \sum_i \phi_i(\xi_i, x_i)$ with $\phi_i = \sum_r c_{ir}\, h(x_i)^\top \Phi_r\, h(\xi_i)$.

    $h$ are hat functions on knots of each dimension, so that $\phi$ is piecewise linear in both values; $\Phi_1$ is
    shared by all dimensions ($c_{i1} = 1$), further tables say how dimensions differ. It knows nothing of the form of
    the corruption. What gaps say is added with a weight of its own. Scores are matrix products, and linear in the
    tables and that weight.

    Args:
        query_knots: how finely the query's values are told apart.
        pattern_knots: and the stored ones.
        rank: number of tables.
    """

    missing_is_evidence = True
    query_places: Tensor
    pattern_places: Tensor
    mixing: Tensor

    def __init__(self, dimensions: int, query_knots: int = 32, pattern_knots: int = 16, rank: int = 1) -> None:
        super().__init__()
        self.dimensions, self.rank = check_count("dimensions", dimensions), check_count("rank", rank)
        self.query_knots = max(2, check_count("query_knots", query_knots))
        self.pattern_knots = max(2, check_count("pattern_knots", pattern_knots))
        self.register_buffer("query_places", torch.linspace(-2, 2, self.query_knots).repeat(dimensions, 1))
        self.register_buffer("pattern_places", torch.linspace(-2, 2, self.pattern_knots).repeat(dimensions, 1))
        self.register_buffer("mixing", torch.eye(1, rank).repeat(dimensions, 1))
        start = -(self.query_places[0].unsqueeze(-1) - self.pattern_places[0]).square()
        self.tables = nn.Parameter(torch.cat([start[None], start.new_zeros(rank - 1, *start.shape)]))
        self.gap_weight = nn.Parameter(torch.ones(()))
        self.missingness = Missingness(dimensions)

    @override
    def configuration(self) -> dict[str, object]:
        return {
            "dimensions": self.dimensions,
            "query_knots": self.query_knots,
            "pattern_knots": self.pattern_knots,
            "rank": self.rank,
        }

    @override
    def forward(self, patterns: Patterns, queries: Queries) -> Scores:
        return over_leading_axes(self._of_matrices, patterns, queries)

    def _of_matrices(self, patterns: Patterns, queries: Queries) -> Scores:
        profiles = self._profiles(queries)
        return self._of_values(patterns, profiles) + self.gap_weight * self.missingness.evidence(patterns, queries)

    def _of_values(self, patterns: Patterns, profiles: Tensor) -> Scores:
        places = self.pattern_places.to(patterns.dtype)
        if serves_tables(patterns, profiles):
            return table_scores(patterns, places, profiles)
        row = patterns.shape[1] * self.pattern_knots * patterns.element_size()
        parts = [
            profiles.flatten(1) @ hats(places, patterns[rows]).flatten(1).mT for rows in blocks(len(patterns), row)
        ]
        return torch.cat(parts, dim=-1)

    @override
    def per_dimension(self, patterns: Patterns, queries: Queries) -> PerDimension:
        profiles, stored = self._profiles(queries), hats(self.pattern_places, patterns)
        of_values = torch.einsum("...bdk,...ndk->...bnd", profiles, stored)
        return of_values + self.gap_weight * self.missingness.evidence_per_dimension(patterns, queries)

    @override
    def features(self, patterns: Patterns, queries: Queries) -> Features:
        with torch.no_grad():
            asked, stored = hats(self.query_places, queries), hats(self.pattern_places, patterns)
            mixed = torch.einsum("...bdq,dr->...bdrq", asked, self.mixing.to(asked.dtype))
            of_tables = torch.einsum("...bdrq,...ndp->...bnrqp", mixed, stored).flatten(-3)
            return torch.cat([of_tables, self.missingness.evidence(patterns, queries).unsqueeze(-1)], dim=-1)

    @property
    @override
    def coefficients(self) -> Coefficients:
        return torch.cat([self.tables.flatten(), self.gap_weight.unsqueeze(0)])

    @override
    def set_coefficients(self, coefficients: Coefficients) -> None:
        with torch.no_grad():
            self.tables.copy_(coefficients[:-1].view_as(self.tables))
            self.gap_weight.copy_(coefficients[-1])

    @override
    def roughness(self) -> Tensor:
        """Bend of each table from knot to knot, along either axis."""
        across = torch.kron(_steps(self.query_knots), torch.eye(self.pattern_knots, dtype=torch.float64))
        along = torch.kron(torch.eye(self.query_knots, dtype=torch.float64), _steps(self.pattern_knots))
        of_tables = torch.kron(torch.eye(self.rank, dtype=torch.float64), torch.cat([across, along]))
        return torch.nn.functional.pad(of_tables, (0, 1))

    @override
    def starts(self) -> Tensor:
        """Flat tables, and what gaps say."""
        return block_diagonal([torch.ones(1, size, dtype=torch.float64) for size in (self.tables.numel(), 1)])

    def _profiles(self, queries: Queries) -> Tensor:
        """Addend of each knot of a stored value, (b, d, knots)."""
        tables = torch.einsum("dr,rqp->dqp", self.mixing.to(queries.dtype), self.tables.to(queries.dtype))
        return torch.einsum("...dq,dqp->...dp", hats(self.query_places, queries), tables)


def hats(places: Tensor, values: Tensor) -> Tensor:
    """Hat functions (..., d, knots) on the knots (d, knots) of each dimension; flat beyond them, nothing at NaN."""
    places = places.to(values.dtype)
    known = torch.where(torch.isnan(values), places[:, 0], values)
    inside = known.clamp(places[:, 0], places[:, -1])
    by_dimension = inside.movedim(-1, 0)
    upper = torch.searchsorted(places.contiguous(), by_dimension.flatten(1).detach().contiguous())
    upper = upper.clamp(1, places.shape[1] - 1).view_as(by_dimension).movedim(0, -1)
    low, high = (
        places.expand(*inside.shape, -1).gather(-1, (upper - back).unsqueeze(-1)).squeeze(-1) for back in (1, 0)
    )
    # Knots that are told apart in float64 may be one in float32: all that is there falls on the lower.
    apart = high > low
    share = ((inside - low) / (high - low).where(apart, 1)).masked_fill(torch.isnan(values) | ~apart, 0)
    present = observed(values)
    empty = values.new_zeros(*values.shape, places.shape[1])
    lower = empty.scatter(-1, (upper - 1).unsqueeze(-1), (present - share).unsqueeze(-1))
    return lower.scatter_add(-1, upper.unsqueeze(-1), share.unsqueeze(-1))


def _steps(knots: int) -> Tensor:
    identity = torch.eye(knots, dtype=torch.float64)
    return identity[:-1] - identity[1:]
