"""Liftings by a formula of the row alone: inner product, cosine, and squared distances."""

from typing import final

import torch
from torch import Tensor
from typing_extensions import override

from ahop._core.checks import check_count
from ahop._core.missing import about_mean, holds_nan, observed
from ahop._core.tensors import of_unit_length
from ahop._core.typing import Patterns, Queries, Vector
from ahop.errors import UnsupportedError
from ahop.scale.liftings.base import Lifting, complete, refuse_gaps, scaled_up


@final
class DotLifting(Lifting):
    r"""$c(\xi) = \xi$, $a(x) = x$; a query with gaps is scaled up by what is missing."""

    def __init__(self, dimensions: int) -> None:
        super().__init__()
        self.dimensions = self.size = check_count("dimensions", dimensions)

    @override
    def configuration(self) -> dict[str, object]:
        return {"dimensions": self.dimensions}

    @override
    def _lift_patterns(self, patterns: Patterns) -> Tensor:
        refuse_gaps(patterns)
        return patterns

    @override
    def _lift_queries(self, queries: Queries) -> Tensor:
        return scaled_up(complete(queries), queries)


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


@final
class QuadraticLifting(Lifting):
    r"""$s = \sum_i -a_i (x_i - \xi_i)^2 + b_i (x_i - \xi_i)$.

    Where all $a_i > 0$ that is a distance, $-\lVert \sqrt a\,\xi - \sqrt a\,(x - b / 2a) \rVert^2$, and is lifted as
    one; else $c(\xi) = (\xi, \sum_i (a_i \xi_i + b_i) \xi_i)$ and $a(x) = (2 a x, -1)$.

    Args:
        is_distance: all weights are positive, and no query has gaps.
        gaps: queries may have gaps; then what a pattern says alone needs a coordinate for each dimension.
    """

    precision: Tensor
    slope: Tensor
    center: Tensor

    def __init__(self, dimensions: int, is_distance: bool = True, gaps: bool = False) -> None:
        super().__init__()
        self.dimensions, self.is_distance, self.gaps = (
            check_count("dimensions", dimensions),
            bool(is_distance),
            bool(gaps),
        )
        self.size = 2 * dimensions if gaps else dimensions + 1
        self.register_buffer("precision", torch.ones(dimensions, dtype=torch.float64))
        self.register_buffer("slope", torch.zeros(dimensions, dtype=torch.float64))
        self.register_buffer("center", torch.zeros(dimensions, dtype=torch.float64))

    @classmethod
    def of(cls, precision: Vector, slope: Vector, patterns: Patterns, gaps: bool) -> "QuadraticLifting":
        """About the mean of the patterns, which saves the digits that a common offset would cost."""
        refuse_gaps(patterns)
        lifting = cls(patterns.shape[1], is_distance=not gaps and bool((precision > 0).all()), gaps=gaps)
        lifting.precision.copy_(precision)
        lifting.slope.copy_(slope)
        lifting.center.copy_(patterns.double().mean(0))
        return lifting

    @override
    def configuration(self) -> dict[str, object]:
        return {"dimensions": self.dimensions, "is_distance": self.is_distance, "gaps": self.gaps}

    @override
    def _lift_patterns(self, patterns: Patterns) -> Tensor:
        refuse_gaps(patterns)
        moved = patterns - self.center.to(patterns)
        if self.is_distance:
            places = (2 * self.precision).sqrt().to(moved) * moved
            return torch.cat([places, -0.5 * places.square().sum(-1, keepdim=True)], dim=-1)
        alone = (self.precision.to(moved) * moved + self.slope.to(moved)) * moved
        return torch.cat([moved, alone if self.gaps else alone.sum(-1, keepdim=True)], dim=-1)

    @override
    def _lift_queries(self, queries: Queries) -> Tensor:
        if not self.gaps and holds_nan(queries):
            raise UnsupportedError(
                "This was lifted for complete queries; got NaN. Give pairs of which some copies have gaps, or lift "
                "with `gaps=True`."
            )
        moved = queries - self.center.to(queries)
        precision, one = self.precision.to(queries), moved.new_ones(len(moved), 1)
        if self.is_distance:
            places = (2 * precision).sqrt() * (moved - (self.slope / (2 * self.precision)).to(moved))
            return torch.cat([places, one], dim=-1)
        if not self.gaps:
            return torch.cat([2 * precision * moved, -one], dim=-1)
        return scaled_up(torch.cat([2 * precision * complete(moved), -observed(queries)], dim=-1), queries)
