"""Gower's similarity of rows of numbers and categories."""

from collections.abc import Sequence
from typing import final

import torch
from torch import Tensor
from typing_extensions import override

from ahop._core.blocks import CACHE_BYTES, pair_blocks
from ahop._core.checks import check_count
from ahop._core.overlap import shared_dimensions
from ahop._core.tensors import distinct
from ahop._core.typing import Patterns, PerDimension, Queries, Scores
from ahop.errors import InvalidValueError
from ahop.similarities.base import DecomposableSimilarity


@final
class GowerSimilarity(DecomposableSimilarity):
    r"""$\sum_i 1 - |\xi_i - x_i| / r_i$ over numbers, and $\sum_i \delta(\xi_i - x_i)$ over categories.

    Practitioners' metric of tables that hold both. What was not observed counts as the mean of what was.

    Args:
        categories: places of the columns that hold categories.
    """

    ranges: Tensor

    def __init__(self, dimensions: int, categories: Sequence[int] = ()) -> None:
        super().__init__()
        self.dimensions = check_count("dimensions", dimensions)
        self.categories = sorted({check_count("categories", place, 0) for place in categories})
        if self.categories and self.categories[-1] >= dimensions:
            raise InvalidValueError(f"`categories` must be columns below {dimensions}; got {self.categories[-1]}.")
        self.register_buffer("ranges", torch.ones(dimensions))

    @override
    def configuration(self) -> dict[str, object]:
        return {"dimensions": self.dimensions, "categories": self.categories}

    @override
    def forward(self, patterns: Patterns, queries: Queries) -> Scores:
        return self.partial(patterns, queries)

    @override
    def partial(self, patterns: Patterns, queries: Queries) -> Scores:
        if patterns.ndim > 2:
            return super().partial(patterns, queries)
        shared = shared_dimensions(patterns, queries).to(queries)
        return (
            (self._numbers(patterns, queries) + self._equal(patterns, queries)) * self.dimensions / shared.clamp_min(1)
        )

    def _numbers(self, patterns: Patterns, queries: Queries) -> Scores:
        """Closeness of numbers, summed over those that both have."""
        known = set(self.categories)
        places = [place for place in range(self.dimensions) if place not in known]
        stored, asked, ranges = patterns[:, places], queries[:, places], self.ranges[places].to(queries)
        scores = queries.new_zeros(len(queries), len(patterns))
        for rows, columns in pair_blocks(len(queries), len(patterns), 16 * len(places), CACHE_BYTES):
            apart = (asked[rows].unsqueeze(-2) - stored[columns]).abs()
            scores[rows, columns] = (1 - apart / ranges).clamp_min(0).nan_to_num(0).sum(-1)
        return scores

    def _equal(self, patterns: Patterns, queries: Queries) -> Scores:
        """Number of equal categories, by a product for each value, or query by query where these are fewer."""
        stored, asked = patterns[:, self.categories], queries[:, self.categories]
        values, _ = distinct(asked[~asked.isnan()])
        if len(values) >= len(queries) > 0:
            return torch.stack([(stored == each).sum(-1).to(queries) for each in asked])
        scores = queries.new_zeros(len(queries), len(patterns))
        for value in values:
            scores += (asked == value).to(scores) @ (stored == value).to(scores).mT
        return scores

    @override
    def per_dimension(self, patterns: Patterns, queries: Queries) -> PerDimension:
        apart = (queries.unsqueeze(-2) - patterns.unsqueeze(-3)).abs()
        found = (1 - apart / self.ranges.to(apart)).clamp_min(0)
        found[..., self.categories] = (apart[..., self.categories] == 0).to(apart)
        return found
