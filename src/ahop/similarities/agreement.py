"""Agreement of values, level by level, beside what chance brings."""

from typing import final

import torch
from torch import Tensor
from typing_extensions import override

from ahop._core.blocks import CACHE_BYTES, pair_blocks
from ahop._core.checks import check_count
from ahop._core.typing import Patterns, PerDimension, Queries, Scores
from ahop.similarities.base import DecomposableSimilarity
from ahop.similarities.contributions import Contributions


@final
class AgreementSimilarity(DecomposableSimilarity):
    r"""$\sum_i \log P(\ell_i) - \log P(\ell_i \mid \xi_i)$, with $\ell_i$ the level of $|x_i - \xi_i|$ among the edges.

    For values that are copied to the digit, or changed a little, or replaced. $P(\ell)$ is the share of the level in
    copies, $P(\ell \mid \xi)$ that in values of the column at large: agreement on a rare value says more.

    Args:
        levels: of agreement; the first is to the digit.
        values: of each column, that say how close others come by chance.
    """

    missing_is_evidence = True
    edges: Tensor
    copied: Tensor
    by_chance: Tensor
    population: Tensor

    def __init__(self, dimensions: int, levels: int = 4, values: int = 64) -> None:
        super().__init__()
        self.dimensions, self.levels = check_count("dimensions", dimensions), check_count("levels", levels)
        self.values = check_count("values", values)
        # The largest difference of each level but the last; a level between equal ones is that of no difference.
        self.register_buffer("edges", torch.arange(levels - 1.0).repeat(dimensions, 1))
        halves = 0.5 ** torch.arange(1.0, levels + 1)
        self.register_buffer("copied", (halves / halves.sum()).repeat(dimensions, 1))
        self.register_buffer("by_chance", torch.full((dimensions, levels), 1 / levels))
        self.register_buffer("population", torch.linspace(-2, 2, values).repeat(dimensions, 1))

    @override
    def configuration(self) -> dict[str, object]:
        return {"dimensions": self.dimensions, "levels": self.levels, "values": self.values}

    @override
    def forward(self, patterns: Patterns, queries: Queries) -> Scores:
        if patterns.ndim > 2:
            return self.per_dimension(patterns, queries).sum(-1)
        scores = queries.new_empty(len(queries), len(patterns))
        for rows, columns in pair_blocks(len(queries), len(patterns), 16 * patterns.shape[1], CACHE_BYTES):
            scores[rows, columns] = self.per_dimension(patterns[columns], queries[rows]).sum(-1)
        return scores

    @override
    def per_dimension(self, patterns: Patterns, queries: Queries) -> PerDimension:
        apart = (queries.unsqueeze(-2) - patterns.unsqueeze(-3)).abs()
        level = torch.zeros_like(apart, dtype=torch.long)
        for edge in self.edges.to(apart).unbind(-1):
            level += apart > edge
        said = self.said(patterns).unsqueeze(-4).expand(*apart.shape, self.levels)
        return said.gather(-1, level.unsqueeze(-1)).squeeze(-1).masked_fill(apart.isnan(), 0)

    @override
    def contributions(self, patterns: Patterns, queries: Queries) -> Contributions:
        apart = (queries.unsqueeze(-2) - patterns.unsqueeze(-3)).abs()
        is_near = apart <= self.edges[:, -1:].mT.to(apart)
        return Contributions(self.per_dimension(patterns, queries), {}, is_near)

    def said(self, patterns: Patterns) -> Tensor:
        """Log-likelihood ratio (..., n, d, levels) of each level beside these stored values."""
        within = self._within(patterns)
        met = torch.cat([within[..., :1], within.diff(dim=-1)], -1)
        by_chance = (met + self.by_chance.to(met)) / (self.values + 1)
        return (self.copied.to(met).log() - by_chance.log()).to(patterns.dtype)

    def _within(self, patterns: Patterns) -> Tensor:
        """Number of values of each column that are no farther from a stored one than each edge, and of all."""
        population, edges = self.population.to(patterns.dtype), self.edges.to(patterns.dtype)
        stored = patterns.nan_to_num(0).unsqueeze(-1)
        reach = torch.stack([stored - edges, stored + edges], -1).movedim(-3, 0)  # (d, ..., n, levels - 1, 2)
        low, high = (each.flatten(1).contiguous() for each in reach.unbind(-1))
        shape = reach.shape[:-1]
        below = torch.searchsorted(population, low, side="left").view(shape)
        up_to = torch.searchsorted(population, high, side="right").view(shape)
        found = (up_to - below).movedim(0, -2).double()
        return torch.cat([found, found.new_full((*found.shape[:-1], 1), self.values)], -1)
