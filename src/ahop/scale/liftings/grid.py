"""Find the grid cell of each of many values."""

from dataclasses import dataclass

import torch
from torch import Tensor

# A value finds its cell by arithmetic; of the places in its cell and the one before it, it passes those below it.
CELLS = 1024
# Where more places than this share a cell, a search by halves is faster.
MOST_STEPS = 6


@dataclass(frozen=True)
class Placed:
    """Places below values (d, n), and the fraction of the way to the next one, in [0, 1]."""

    lower: Tensor
    share: Tensor


class Places:
    """A grid (d, g) of rising places, ready to be looked up.

    In float32, in which the edges of levels are kept: a value that one was made of must not pass it by its rounding.
    """

    def __init__(self, grid: Tensor) -> None:
        self.grid = grid.float().contiguous()
        self.count = self.grid.shape[1]
        ends = self.grid[:, -1:] - self.grid[:, :1]
        self._scale = (CELLS / ends).where(ends > 0, 0.0).nan_to_num(0, 0, 0)
        gaps = self.grid.diff(dim=-1)
        self._slopes = torch.nn.functional.pad((1 / gaps).where(gaps > 0, 0.0), (0, 1)).nan_to_num(0, 0, 0)
        cells = self._cells(self.grid)
        before = (cells.unsqueeze(1) < torch.arange(CELLS).unsqueeze(-1) - 1).sum(-1)  # places two cells below
        through = (cells.unsqueeze(1) <= torch.arange(CELLS).unsqueeze(-1) + 1).sum(-1)
        self._start = (before - 1).clamp_(0, max(0, self.count - 2)).int()
        self._steps = int((through - before).max()) if self.count > 1 else 0

    def find(self, values: Tensor) -> Placed:
        """Locate values (d, n); those beyond the grid are at its ends, and NaN is at the place behind the last."""
        values = values.float()
        gaps = values.isnan()
        if self.count == 1:
            return Placed(gaps.int(), torch.zeros_like(values))
        lower = self._search(values) if self._steps > MOST_STEPS else self._walk(values)
        offsets = torch.arange(len(self.grid), dtype=torch.int32).unsqueeze(-1) * self.count
        low, slope = _take(self.grid, lower + offsets), _take(self._slopes, lower + offsets)
        share = ((values - low) * slope).clamp_(0, 1)
        if bool(gaps.any()):
            return Placed(lower.masked_fill_(gaps, self.count), share.masked_fill_(gaps, 0))
        return Placed(lower, share)

    def _search(self, values: Tensor) -> Tensor:
        """The slow truth: the last place below the value."""
        found = torch.searchsorted(self.grid, values.contiguous(), out_int32=True)
        return found.sub_(1).clamp_(0, self.count - 2)

    def _walk(self, values: Tensor) -> Tensor:
        offsets = torch.arange(len(self.grid), dtype=torch.int32).unsqueeze(-1)
        lower = _take(self._start, self._cells(values) + offsets * CELLS)
        for _ in range(self._steps):
            nexts = _take(self.grid, lower + (offsets * self.count + 1))
            lower += nexts < values
            lower.clamp_(max=self.count - 2)
        return lower

    def _cells(self, values: Tensor) -> Tensor:
        cells = (values - self.grid[:, :1]) * self._scale
        return cells.nan_to_num_(0, CELLS, 0).clamp_(0, CELLS - 1).int()


def _take(table: Tensor, indices: Tensor) -> Tensor:
    return table.flatten().index_select(0, indices.flatten()).view_as(indices)
