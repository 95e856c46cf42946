"""Directions: the inner product of rows of length one."""

from typing import final

from torch import Tensor
from typing_extensions import override

from ahop._core.checks import check_count
from ahop._core.missing import about_mean, observed
from ahop._core.tensors import of_unit_length
from ahop._core.typing import Patterns, Queries
from ahop.scale.liftings.base import Lifting, complete, refuse_gaps


@final
class CosineLifting(Lifting):
    r"""$c(\xi) = \xi / \lVert \xi \rVert$, $a(x) = x / \lVert x \rVert$; with the mean of each row off, a correlation.

    Exact for complete queries. Where a query has gaps, what is left of a pattern's length is taken to be the same share
    for all patterns: close, and the error is measured.

    Args:
        centered: the mean of each row is taken off first.
    """

    def __init__(self, dimensions: int, centered: bool = False) -> None:
        super().__init__()
        self.dimensions = self.size = check_count("dimensions", dimensions)
        self.centered = bool(centered)

    @override
    def configuration(self) -> dict[str, object]:
        return {"dimensions": self.dimensions, "centered": self.centered}

    @override
    def _lift_patterns(self, patterns: Patterns) -> Tensor:
        refuse_gaps(patterns)
        return of_unit_length(about_mean(patterns) if self.centered else patterns)

    @override
    def _lift_queries(self, queries: Queries) -> Tensor:
        directions = of_unit_length(complete(about_mean(queries) if self.centered else queries))
        return directions * (self.dimensions / observed(queries).sum(-1, keepdim=True).clamp_min(1)).sqrt()
