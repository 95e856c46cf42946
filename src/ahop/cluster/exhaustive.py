"""Every score of every row, for similarities that are no inner product."""

from collections.abc import Mapping
from typing import Any, final

import torch
from torch import Tensor

from ahop._blocks import blocks
from ahop._typing import Queries
from ahop.indexes.engines.base import Background, Found, stacked
from ahop.indexes.merging import sharpness
from ahop.indexes.metadata import Metadata, Where
from ahop.memory import AssociativeMemory
from ahop.unknown import mean_and_spread


@final
class ExhaustiveIndex:
    """What a `Index` answers, where the similarity has no lifting: slower, and exact."""

    def __init__(self, memory: AssociativeMemory, metadata: Mapping[str, Any] | None = None) -> None:
        self.memory, self.metadata = memory, Metadata(metadata, len(memory))

    @torch.no_grad()
    def search(self, queries: Queries, k: int, where: Where | None = None) -> Found:
        allowed = None if where is None else self.metadata.allowed(where, len(self.memory))
        k, row_bytes = min(k, len(self.memory)), 32 * len(self.memory)
        parts = [self._search(queries[rows], k, allowed) for rows in blocks(len(queries), row_bytes)]
        return stacked(parts) if parts else self._search(queries, k, allowed)

    def _search(self, queries: Queries, k: int, allowed: Tensor | None) -> Found:
        scores = self.memory.scores(queries)
        if allowed is not None:
            scores = scores.masked_fill(~allowed, -torch.inf)
        best = scores.topk(k, dim=-1)
        log_mass = torch.logsumexp(sharpness(self.memory) * scores, dim=-1)
        indices = best.indices.masked_fill(torch.isneginf(best.values), -1)
        behind = None if self.memory.detector is None else _background(scores, best.indices)
        count = int((scores > -torch.inf).sum(-1).max()) if scores.numel() else 0
        return Found(indices, best.values, log_mass, behind, count)


def _background(scores: Tensor, best: Tensor) -> Background:
    """Mean and spread of the scores that say anything, and the mass of those that are not among the best."""
    mean, spread = mean_and_spread(scores)
    rest = scores.scatter(-1, best, -torch.inf).logsumexp(-1)
    return Background(rest, mean, spread, int((scores > -torch.inf).sum(-1).max()) if scores.numel() else 0)
