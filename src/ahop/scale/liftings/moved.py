"""A lifting whose queries are put on the scale of the patterns first."""

from typing import final

import torch
from torch import Tensor
from typing_extensions import override

from ahop._core.checks import check_kind
from ahop._core.typing import Patterns, Queries
from ahop.scale.liftings.base import Lifting


@final
class MovedLifting(Lifting):
    r"""$a((x - b) / g)$ and $c(\xi)$ of another lifting."""

    bias: Tensor
    gain: Tensor

    def __init__(self, base: Lifting, dimensions: int) -> None:
        super().__init__()
        self.base = check_kind("base", base, Lifting)
        self.dimensions, self.size = dimensions, base.size
        self.is_distance, self.is_whole = base.is_distance, base.is_whole
        self.register_buffer("bias", torch.zeros(dimensions))
        self.register_buffer("gain", torch.ones(dimensions))

    @classmethod
    def of(cls, base: Lifting, bias: Tensor, gain: Tensor) -> "MovedLifting":
        lifting = cls(base, len(bias))
        lifting.bias.copy_(bias)
        lifting.gain.copy_(gain)
        return lifting

    @override
    def configuration(self) -> dict[str, object]:
        return {"base": self.base, "dimensions": self.dimensions}

    @override
    def _lift_patterns(self, patterns: Patterns) -> Tensor:
        return self.base._lift_patterns(patterns)

    @override
    def _lift_queries(self, queries: Queries) -> Tensor:
        return self.base._lift_queries((queries - self.bias.to(queries)) / self.gain.to(queries))
