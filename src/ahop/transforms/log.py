"""Strengths above a floor, in logarithms."""

from typing import final

import torch
from torch import Tensor
from typing_extensions import override

from ahop.transforms.base import Transform
from ahop.transforms.power import check_missing, check_range, share_of_range, with_gaps_at


@final
class LogTransform(Transform):
    r"""$\log(1 + \max(0, (x - \mathrm{low}) / (\mathrm{high} - \mathrm{low})))$.

    For counts and intensities: a factor counts alike among the small and the large.

    Args:
        low: the value that becomes 0, as do all below it.
        high: how far above `low` the logarithm begins to bend.
        missing: what a gap becomes, such as 0 for what was not counted. If None, it stays a gap.
    """

    def __init__(self, low: float, high: float, missing: float | None = None) -> None:
        super().__init__()
        self.low, self.high = check_range(low, high)
        self.missing = check_missing(missing)
        self.fills_gaps = self.missing is not None

    @override
    def configuration(self) -> dict[str, object]:
        return {"low": self.low, "high": self.high, "missing": self.missing}

    @override
    def forward(self, rows: Tensor) -> Tensor:
        return with_gaps_at(torch.log1p(share_of_range(rows, self.low, self.high)), rows, self.missing)
