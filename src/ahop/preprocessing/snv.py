"""Standard normal variate: each row on a scale of its own."""

from typing import Any, overload

import torch
from numpy.typing import NDArray
from torch import Tensor

from ahop._checks import as_matrix, same_kind
from ahop._observed import filled, observed
from ahop._typing import Array, NotTensor, RowsLike


@overload
def snv(rows: Tensor) -> Tensor: ...
@overload
def snv(rows: NotTensor) -> NDArray[Any]: ...
def snv(rows: RowsLike) -> Array:
    r"""$(x - \mathrm{mean}(x)) / \mathrm{std}(x)$ of each row, (b, d), over what was observed of it.

    Takes out the offset and the gain of a spectrum. The standard deviation divides by the number of observed
    values; a row that is the same everywhere becomes zeros. What was not observed stays NaN.
    """
    return same_kind(standardised(as_matrix("rows", rows)), rows)


def standardised(rows: Tensor) -> Tensor:
    """The same of rows (..., d) that were checked."""
    known, values = observed(rows), filled(rows)
    count = known.sum(-1, keepdim=True)
    largest = values.abs().amax(-1, keepdim=True) if rows.shape[-1] else count
    scaled = values / largest.where(largest > 0, 1.0)  # so that no square is too large or too small
    residual = scaled
    for _ in range(2):  # the second time takes out what rounding left
        residual = (residual - residual.sum(-1, keepdim=True) / count.clamp_min(1)) * known
    deviation = (residual.square().sum(-1, keepdim=True) / count.clamp_min(1)).sqrt()
    differs = deviation > 4 * torch.finfo(rows.dtype).eps  # less is what rounding leaves of equal numbers
    return (residual / deviation.where(differs, 1.0)).where(differs, 0.0).where(known > 0, torch.nan)
