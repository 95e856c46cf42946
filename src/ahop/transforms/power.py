"""Strengths above a floor, raised to a power."""

from typing import final

from torch import Tensor
from typing_extensions import override

from ahop._core.checks import check_positive
from ahop._core.tensors import saturate
from ahop.errors import InvalidValueError
from ahop.transforms.base import Transform


@final
class PowerTransform(Transform):
    r"""$\max(0, (x - \mathrm{low}) / (\mathrm{high} - \mathrm{low}))^{\mathrm{exponent}}$.

    For strengths that end at a floor, such as what a radio hears ("powed" in Wi-Fi positioning).

    Args:
        low: the value that becomes 0, as do all below it.
        high: the value that becomes 1.
        missing: what a gap becomes, such as 0 for what was not heard. If None, it stays a gap.
    """

    def __init__(self, low: float, high: float, exponent: float = 1.0, missing: float | None = None) -> None:
        super().__init__()
        self.low, self.high = check_range(low, high)
        self.exponent = check_positive("exponent", exponent)
        self.missing = check_missing(missing)
        self.fills_gaps = self.missing is not None

    @override
    def configuration(self) -> dict[str, object]:
        return {"low": self.low, "high": self.high, "exponent": self.exponent, "missing": self.missing}

    @override
    def forward(self, rows: Tensor) -> Tensor:
        share = share_of_range(rows, self.low, self.high)
        above = share > 0
        raised = saturate(share.where(above, 1) ** self.exponent).where(above | share.isnan(), 0)
        return with_gaps_at(raised, rows, self.missing)


def check_range(low: float, high: float) -> tuple[float, float]:
    low, high = float(low), float(high)
    if not abs(low) + abs(high) < float("inf") or not low < high:
        raise InvalidValueError(f"`low` must be less than `high`, and both finite; got {low!r} and {high!r}.")
    return low, high


def check_missing(missing: float | None) -> float | None:
    if missing is None:
        return None
    if not abs(float(missing)) < float("inf"):
        raise InvalidValueError(f"`missing` must be a finite number, or None for gaps that stay; got {missing!r}.")
    return float(missing)


def share_of_range(rows: Tensor, low: float, high: float) -> Tensor:
    """Position of each value between low and high, 0 below; gaps stay."""
    return ((rows - low) / (high - low)).clamp_min(0)


def with_gaps_at(values: Tensor, rows: Tensor, missing: float | None) -> Tensor:
    """The values, and where the rows have gaps what a gap becomes."""
    return values.where(~rows.isnan(), float("nan") if missing is None else missing)
