"""First differences along the dimensions."""

from typing import final

import torch
from torch import Tensor
from typing_extensions import override

from ahop.transforms.base import Transform


@final
class DifferenceTransform(Transform):
    """$x_{i+1} - x_i$; not observed where either is not.

    For dimensions in an order, such as the channels of a spectrum: a constant baseline is gone. A single dimension has
    nothing to differ from, and becomes 0.
    """

    @override
    def forward(self, rows: Tensor) -> Tensor:
        return rows.diff(dim=-1) if rows.shape[-1] > 1 else torch.zeros_like(rows).where(~rows.isnan(), torch.nan)

    @override
    def dimensions_out(self, dimensions: int) -> int:
        return max(1, dimensions - 1)
