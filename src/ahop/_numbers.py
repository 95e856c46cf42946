"""Small matters of numbers: the edges of their range, and blocks of them."""

from collections.abc import Sequence

import torch
from torch import Tensor


def saturate(values: Tensor, dtype: torch.dtype | None = None) -> Tensor:
    """The values in `dtype`, with what would overflow held at the largest finite number."""
    dtype = dtype or values.dtype
    largest = min(torch.finfo(dtype).max, torch.finfo(values.dtype).max)
    return values.clamp(-largest, largest).to(dtype)


def block_diagonal(parts: Sequence[Tensor]) -> Tensor:
    """The matrices along the diagonal of one larger matrix."""
    joined: Tensor = torch.block_diag(*parts)  # type: ignore[no-untyped-call]
    return joined
