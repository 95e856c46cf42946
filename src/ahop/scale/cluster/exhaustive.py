"""Exhaustive search, for similarities that are not an inner product."""

from collections.abc import Sequence
from typing import final

import torch
from torch import Tensor

from ahop._core.typing import Queries
from ahop.memory.memory import AssociativeMemory
from ahop.memory.ranking import Ranked
from ahop.memory.scoring import rank
from ahop.scale.indexes.metadata import Metadata, Where


@final
class ExhaustiveIndex:
    """Stand-in for an `Index` where the similarity has no lifting: slower, and exact."""

    def __init__(self, memory: AssociativeMemory) -> None:
        self.memory, self._none = memory, Metadata(None, len(memory))

    @torch.no_grad()
    def search(
        self,
        queries: Queries,
        k: int,
        *,
        where: Where | None = None,
        groups: Sequence[object] | None = None,
        worst: Tensor | None = None,
    ) -> Ranked:
        rows = None if where is None else self._none.allowed(where, len(self.memory)).nonzero().squeeze(-1)
        stored = self.memory.modulation(self.memory.patterns)
        k = min(k, len(self.memory))
        return rank(self.memory.model, stored, queries, k, groups=groups, rows=rows, worst=worst)
