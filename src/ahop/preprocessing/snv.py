"""Standard normal variate: each row on a scale of its own."""

from typing import Any, overload

from numpy.typing import NDArray
from torch import Tensor

from ahop._checks import as_matrix, same_kind
from ahop._typing import Array, NotTensor, RowsLike
from ahop.transforms.snv import SNVTransform


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
