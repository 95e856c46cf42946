"""Liftings made of others: of moved queries, of transformed rows, and several side by side."""

from collections.abc import Sequence
from typing import final

import torch
from torch import Tensor, nn
from typing_extensions import override

from ahop._core.checks import check_kind
from ahop._core.typing import Patterns, Queries
from ahop.errors import ShapeError
from ahop.scale.liftings.base import Lifting
from ahop.transforms.base import Transform


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


@final
class TransformedLifting(Lifting):
    r"""$a(t(x))$ and $c(t(\xi))$ of another lifting."""

    def __init__(self, base: Lifting, transform: Transform) -> None:
        super().__init__()
        self.base, self.transform = check_kind("base", base, Lifting), check_kind("transform", transform, Transform)
        self.size, self.is_distance, self.is_whole = base.size, base.is_distance, base.is_whole

    @override
    def configuration(self) -> dict[str, object]:
        return {"base": self.base, "transform": self.transform}

    @override
    def _lift_patterns(self, patterns: Patterns) -> Tensor:
        return self.base._lift_patterns(self.transform(patterns))

    @override
    def _lift_queries(self, queries: Queries) -> Tensor:
        return self.base._lift_queries(self.transform(queries))


@final
class SumLifting(Lifting):
    r"""$c(\xi) = (c_1(\xi), c_2(\xi), \dots)$ and $a(x) = (w_1 a_1(x), w_2 a_2(x), \dots)$.

    Args:
        parts: at least one.
        is_whole: all that has weight in the similarity is among them.
    """

    weights: Tensor

    def __init__(self, parts: Sequence[Lifting], is_whole: bool = True) -> None:
        super().__init__()
        chosen = [check_kind("parts", part, Lifting) for part in parts]
        if not chosen:
            raise ShapeError("`parts` must hold at least one lifting; got none.")
        self.parts = nn.ModuleList(chosen)
        self.size = sum(part.size for part in chosen)
        self.is_whole = bool(is_whole) and all(part.is_whole for part in chosen)
        self.register_buffer("weights", torch.ones(len(chosen), dtype=torch.float64))

    @override
    def configuration(self) -> dict[str, object]:
        return {"parts": self._parts(), "is_whole": self.is_whole}

    @override
    def _lift_patterns(self, patterns: Patterns) -> Tensor:
        return torch.cat([part._lift_patterns(patterns) for part in self._parts()], dim=-1)

    @override
    def _lift_queries(self, queries: Queries) -> Tensor:
        weighed = zip(self.weights.to(queries), self._parts(), strict=True)
        return torch.cat([weight * part._lift_queries(queries) for weight, part in weighed], dim=-1)

    def _parts(self) -> list[Lifting]:
        return [part for part in self.parts if isinstance(part, Lifting)]
