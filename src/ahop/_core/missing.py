"""NaN means "not observed": finding the gaps, and arithmetic that leaves them out.

Gaps are masked by zeros and ones in the dtype of the data: torch is several times slower with booleans.
"""

import numpy as np
import torch
from torch import Tensor

from ahop._core.typing import Patterns

# Rows that a median is taken of.
MOST_ROWS = 1 << 14


def holds_nan(*tensors: Tensor) -> bool:
    """True if something was not observed; compiled code does not ask. A maximum shows it, and is as fast as memory."""
    if torch.compiler.is_compiling():
        return False
    return any(each.numel() > 0 and bool(each.detach().amax().isnan()) for each in tensors)


def filled(values: Tensor) -> Tensor:
    """Zero where nothing was observed. To be done before the arithmetic: a NaN behind it would spoil the gradient."""
    return values.nan_to_num(0.0, torch.inf, -torch.inf)


def observed(values: Tensor) -> Tensor:
    """One where something was observed, zero elsewhere."""
    values = values.detach()
    mask: Tensor = torch.eq(values, values, out=torch.empty_like(values))  # NaN alone is not equal to itself
    return mask


def about_center(patterns: Patterns) -> tuple[Tensor, Patterns]:
    """The center of what was observed of the patterns (1, d), and these about it, with zeros in the gaps (n, d)."""
    stored = patterns.detach()
    center = filled(stored).sum(-2, keepdim=True) / observed(stored).sum(-2, keepdim=True).clamp_min(1)
    return center, filled(patterns - center)


def about_mean(rows: Tensor) -> Tensor:
    """Each row with the mean of what was observed of it taken off. A constant row is exactly zero; the gaps stay."""
    values, present = filled(rows), observed(rows)
    centered = rows - values.sum(-1, keepdim=True) / present.sum(-1, keepdim=True).clamp_min(1)
    smallest = values.detach().masked_fill(present == 0, torch.inf).amin(-1, keepdim=True)
    largest = values.detach().masked_fill(present == 0, -torch.inf).amax(-1, keepdim=True)
    return centered.where((smallest < largest) | (present == 0), 0)


def quantiles(values: Tensor, shares: Tensor) -> Tensor:
    """The quantiles (d, k) of what was observed of each dimension; zero where nothing was."""
    # numpy sorts several times faster than torch, and what was not observed to the end.
    rising = torch.from_numpy(np.sort(values.detach().cpu().mT.contiguous().numpy(), axis=-1)).to(values.device)
    counts = (rising == rising).sum(-1, keepdim=True)
    place = shares.to(rising) * (counts - 1).clamp_min(0)
    lower = place.long()
    low, high = rising.gather(-1, lower), rising.gather(-1, torch.minimum(lower + 1, (counts - 1).clamp_min(0)))
    return torch.lerp(low, high, place - lower).nan_to_num(0)


def median_shift(patterns: Tensor, queries: Tensor) -> Tensor:
    """Shift of queries that makes the medians of all dimensions agree with those of the patterns, (d,).

    Of very many patterns, some are enough.
    """
    some = patterns[:: -(-len(patterns) // MOST_ROWS) or 1]
    return (queries.nanmedian(0).values - some.nanmedian(0).values).nan_to_num(0)


def midpoints(count: int) -> Tensor:
    """The middles of so many equal shares of one."""
    return (torch.arange(count, dtype=torch.float64) + 0.5) / count
