"""Several liftings side by side: the inner product of a weighted sum."""

from collections.abc import Sequence
from typing import final

import torch
from torch import Tensor, nn
from typing_extensions import override

from ahop._core.checks import check_kind
from ahop._core.typing import Patterns, Queries
from ahop.errors import ShapeError
from ahop.scale.liftings.base import Lifting


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
