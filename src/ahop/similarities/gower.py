"""Gower's similarity of rows of numbers and categories."""

from collections.abc import Sequence
from typing import final

import torch
from torch import Tensor
from typing_extensions import override

from ahop._core.checks import check_count
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
    def per_dimension(self, patterns: Patterns, queries: Queries) -> PerDimension:
        apart = (queries.unsqueeze(-2) - patterns.unsqueeze(-3)).abs()
        found = (1 - apart / self.ranges.to(apart)).clamp_min(0)
        found[..., self.categories] = (apart[..., self.categories] == 0).to(apart)
        return found
