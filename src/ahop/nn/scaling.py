"""The inverse temperature of a layer, fixed or learned for each head."""

from collections.abc import Sequence
from typing import final

import torch
from torch import Tensor, nn

from ahop._core.checks import check_positive
from ahop._core.component import Component
from ahop.errors import ShapeError


@final
class Scaling(Component):
    """Fixed numbers are no part of the state; learned ones are the parameter `scale`."""

    def __init__(self, scaling: float | list[float], learn_scaling: bool = False) -> None:
        super().__init__()
        self.numbers = [
            check_positive("scaling", each) for each in (scaling if isinstance(scaling, list) else [scaling])
        ]
        self.is_single = not isinstance(scaling, list)
        self.scale = nn.Parameter(torch.tensor(self.numbers)) if learn_scaling else None

    @property
    def number(self) -> float:
        """Value of a fixed scaling that all heads share; one where the scaling is a tensor."""
        return self.numbers[0] if self.is_number else 1.0

    @property
    def is_number(self) -> bool:
        return self.scale is None and self.is_single

    def configuration(self) -> dict[str, object]:
        numbers = self.numbers if self.scale is None else [float(each) for each in self.scale.detach()]
        return {"scaling": numbers[0] if self.is_single else numbers, "learn_scaling": self.scale is not None}

    def factor(self, like: Tensor) -> Tensor | float:
        """A number, or what broadcasts over (heads, rows, columns)."""
        if self.is_number:
            return self.number
        scale = torch.tensor(self.numbers, device=like.device) if self.scale is None else self.scale
        return scale.to(like.dtype).view(() if self.is_single else (-1, 1, 1))

    def forward(self, values: Tensor) -> Tensor:
        return values * self.factor(values)

    def __call__(self, values: Tensor) -> Tensor:
        scaled: Tensor = super().__call__(values)
        return scaled


def scaling_of(scaling: float | Sequence[float] | Tensor, learn: bool) -> Scaling:
    if isinstance(scaling, Tensor):
        if scaling.ndim > 1:
            raise ShapeError(f"`scaling` must be a number or one for each head; got shape {tuple(scaling.shape)}.")
        scaling = scaling.tolist()
    return Scaling(float(scaling) if isinstance(scaling, (int, float)) else [float(each) for each in scaling], learn)
