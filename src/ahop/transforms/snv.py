"""Standard normal variate: each row on a scale of its own."""

from typing import Any, final, overload

import torch
from numpy.typing import NDArray
from torch import Tensor
from typing_extensions import override

from ahop._core.inputs import as_matrix, same_kind
from ahop._core.missing import about_mean, filled, observed
from ahop._core.tensors import of_unit_length
from ahop._core.typing import Array, NotTensor, RowsLike
from ahop.transforms.base import Transform


@final
class SNVTransform(Transform):
    r"""$(x_i - \bar x) / \mathrm{std}(x)$ over what was observed of a row; constant rows become 0.

    The standard normal variate of spectroscopy: what is added to a whole row or multiplies it is gone.
    """

    @override
    def forward(self, rows: Tensor) -> Tensor:
        present = observed(rows)
        variate = of_unit_length(filled(about_mean(rows))) * present.sum(-1, keepdim=True).sqrt()
        return variate.where(present > 0, torch.nan)


@overload
def snv(rows: Tensor) -> Tensor: ...
@overload
def snv(rows: NotTensor) -> NDArray[Any]: ...
def snv(rows: RowsLike) -> Array:
    r"""$(x - \mathrm{mean}(x)) / \mathrm{std}(x)$ of each row, (b, d), over what was observed of it.

    Takes out the offset and the gain of a spectrum. The standard deviation divides by the number of observed
    values; a row that is the same everywhere becomes zeros. What was not observed stays NaN.
    """
    return same_kind(SNVTransform()(as_matrix("rows", rows)), rows)
