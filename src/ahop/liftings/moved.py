"""A lifting whose queries are shifted first."""

from typing import final

import torch
from torch import Tensor
from typing_extensions import override

from ahop._checks import check_kind
from ahop._typing import Patterns, Queries
from ahop.liftings.base import Lifting


@final
class MovedLifting(Lifting):
    r"""$a(x - b)$ and $c(\xi)$ of another lifting."""

    bias: Tensor

    def __init__(self, base: Lifting, dimensions: int) -> None:
        super().__init__()
        self.base = check_kind("base", base, Lifting)
        self.dimensions, self.size, self.is_distance = dimensions, base.size, base.is_distance
        self.register_buffer("bias", torch.zeros(dimensions))

    @override
    def configuration(self) -> dict[str, object]:
        return {"base": self.base, "dimensions": self.dimensions}

    @override
    def _lift_patterns(self, patterns: Patterns) -> Tensor:
        return self.base._lift_patterns(patterns)

    @override
    def _lift_queries(self, queries: Queries) -> Tensor:
        return self.base._lift_queries(queries - self.bias.to(queries))
