"""Columns in standard deviations from their mean, and back."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

# Standard deviations, as a share of the largest value, below which a column is constant but for rounding.
LEAST_SPREAD = 1e-13
# Standard deviations beyond which it does not matter how many there are.
OUT_OF_SIGHT = 1e3


@dataclass(frozen=True)
class Standardization:
    """Mean and scale of the observed values of each column (d,), in float64.

    Attributes:
        peak: the largest magnitude; mean and spread are shares of it, so that no square overflows.
        low: the least value, and `high` the largest.
    """

    peak: NDArray[np.float64]
    mean: NDArray[np.float64]
    spread: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]

    @classmethod
    def of(cls, X: NDArray[Any]) -> "Standardization":
        low, high = np.nanmin(X, axis=0).astype(np.float64), np.nanmax(X, axis=0).astype(np.float64)
        largest = np.maximum(np.abs(low), np.abs(high))
        peak = np.where(largest > 0, largest, 1.0)
        shares = X / peak
        return cls(peak, np.nanmean(shares, axis=0), np.nanstd(shares, axis=0), low, high)

    @property
    def relative_spread(self) -> Tensor:
        """Standard deviations of the columns beside each other; the largest is one."""
        logarithm = np.log(np.where(self._varies, self.spread, 1.0)) + np.log(self.peak)
        relative = np.exp(logarithm - logarithm.max(initial=-np.inf, where=self._varies))
        return torch.from_numpy(np.where(self._varies, relative, 0.0)).float()

    def apply(self, X: NDArray[Any]) -> Tensor:
        standardized = (X / self.peak - self.mean) / np.where(self._varies, self.spread, 1.0)
        return torch.from_numpy(np.clip(standardized, -OUT_OF_SIGHT, OUT_OF_SIGHT)).float()

    def undo(self, values: Tensor) -> NDArray[np.float64]:
        """The values in their own units, none beyond what was observed."""
        shares = values.double().numpy() * np.where(self._varies, self.spread, 0.0) + self.mean
        return np.clip(np.clip(shares, -1.0, 1.0) * self.peak, self.low, self.high)

    @property
    def _varies(self) -> NDArray[np.bool_]:
        return self.spread > LEAST_SPREAD
