"""Some of the columns."""

from collections.abc import Sequence
from typing import final

from torch import Tensor
from typing_extensions import override

from ahop._core.checks import check_count
from ahop.errors import InvalidValueError, ShapeError
from ahop.transforms.base import Transform


@final
class SelectTransform(Transform):
    r"""$x_S$: these columns, in this order.

    Args:
        places: of the columns, counted from zero.
    """

    def __init__(self, places: Sequence[int]) -> None:
        super().__init__()
        self.places = [check_count("places", place, 0) for place in places]
        if not self.places or len(set(self.places)) != len(self.places):
            raise InvalidValueError(f"`places` must be different columns, at least one; got {list(places)}.")

    @override
    def configuration(self) -> dict[str, object]:
        return {"places": self.places}

    @override
    def forward(self, rows: Tensor) -> Tensor:
        self._check(rows.shape[-1])
        return rows[..., self.places]

    @override
    def dimensions_out(self, dimensions: int) -> int:
        self._check(dimensions)
        return len(self.places)

    def _check(self, dimensions: int) -> None:
        if max(self.places) >= dimensions:
            raise ShapeError(f"rows must have a column {max(self.places)}, which is selected; they have {dimensions}.")
