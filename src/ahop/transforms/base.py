"""Base class of transforms."""

from abc import ABC, abstractmethod

from torch import Tensor

from ahop._core.component import Component


class Transform(Component, ABC):
    """Rows (..., d) to rows (..., d'), each on its own; NaN means not observed.

    Attributes:
        fills_gaps: the result has no NaN.
    """

    fills_gaps: bool = False

    @abstractmethod
    def forward(self, rows: Tensor) -> Tensor: ...

    def dimensions_out(self, dimensions: int) -> int:
        """Number of dimensions of a transformed row, given that of the row."""
        return dimensions

    def __call__(self, rows: Tensor) -> Tensor:
        transformed: Tensor = super().__call__(rows)
        return transformed
