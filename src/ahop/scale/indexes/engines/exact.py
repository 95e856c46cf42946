"""Exact search by blocked matrix products."""

from dataclasses import dataclass
from math import log
from typing import final

import torch
from torch import Tensor
from torch.nn.functional import pad
from typing_extensions import override

from ahop._core.blocks import blocks
from ahop._core.free_memory import check_free_memory
from ahop._core.tensors import all_finite, saturate
from ahop.scale.indexes.engines.base import Engine, Found, stacked

# Scores of one block: rows for the matrix product to be fast, columns for the search of the best to be worth it.
ROWS, COLUMNS = 128, 32768
# The k best numbers lie in the k groups of the best maxima, and those that better what is known in few of them.
GROUP = 32
# In logarithms: beside the best, what lies so far below it and all its like weigh nothing.
NEGLIGIBLE = 7.0


@final
class ExactEngine(Engine):
    """Matrix products and the best of each block: right by construction, and the fastest up to about a million rows."""

    is_exhaustive = True

    def __init__(self, vectors: Tensor) -> None:
        self.vectors = vectors

    @override
    def __len__(self) -> int:
        return len(self.vectors)

    @override
    @torch.no_grad()
    def search(self, queries: Tensor, k: int, allowed: Tensor | None = None, beta: float | None = None) -> Found:
        k = min(k, len(self))
        parts = [self._search(queries[rows], k, allowed, beta) for rows in blocks(len(queries), 1, ROWS)]
        if not parts:
            empty = queries.new_empty(0, k)
            return Found(empty.long(), empty, None if beta is None else queries.new_empty(0))
        return stacked(parts)

    @override
    def add(self, vectors: Tensor) -> None:
        check_free_memory(2 * (self.vectors.nbytes + vectors.nbytes), f"{len(self) + len(vectors)} rows, old and new,")
        self.vectors = torch.cat([self.vectors, vectors.to(self.vectors)])

    @override
    def settings(self) -> dict[str, object]:
        return {"kind": "exact"}

    @override
    def tensors(self) -> dict[str, Tensor]:
        return {"vectors": self.vectors}

    def _search(self, queries: Tensor, k: int, allowed: Tensor | None, beta: float | None) -> Found:
        best = queries.new_full((len(queries), 0), 0.0)
        rows = torch.empty(len(queries), 0, dtype=torch.long, device=queries.device)
        top, mass = queries.new_full((len(queries), 1), -torch.inf), queries.new_zeros(len(queries), 1)
        for columns in blocks(len(self), 1, COLUMNS):
            scores = queries @ self.vectors[columns].mT
            if not all_finite(scores):  # what is too large is no row less
                scores = saturate(scores.nan_to_num(0, torch.inf, -torch.inf))
            if allowed is not None:
                scores.masked_fill_(~allowed[columns], -torch.inf)
            groups = _groups(scores)
            values, places = groups.above(best[:, k - 1 : k], k)
            both = torch.cat([best, values], dim=-1)
            best, order = both.topk(min(k, both.shape[1]), dim=-1)
            rows = torch.cat([rows, places + columns.start], dim=-1).gather(-1, order)
            if beta is not None:
                higher = torch.maximum(top, best[:, :1])
                mass = mass * torch.exp(beta * (top - higher).nan_to_num(0)) + _mass(groups, higher, beta, len(self))
                top = higher
        log_mass = None if beta is None else (beta * top + mass.log()).squeeze(-1)
        return Found(rows.masked_fill(best == -torch.inf, -1), best, log_mass)


@dataclass(frozen=True)
class _Groups:
    """Scores in groups of columns (b, g, GROUP), and the largest of each."""

    scores: Tensor
    tops: Tensor

    def above(self, floor: Tensor, k: int) -> tuple[Tensor, Tensor]:
        """Scores and their columns, (b, some): all of the k best that are above the floor, if there is one yet."""
        count = int((self.tops > floor).sum(-1).max()) if floor.numel() else self.tops.shape[1]
        chosen = self.tops.topk(min(k, count), dim=-1).indices
        inside = self.scores.gather(1, chosen.unsqueeze(-1).expand(-1, -1, GROUP)).flatten(1)
        columns = chosen.unsqueeze(-1) * GROUP + torch.arange(GROUP, device=chosen.device)
        return inside, columns.flatten(1)


def _groups(scores: Tensor) -> _Groups:
    rest = -scores.shape[1] % GROUP
    groups = (pad(scores, (0, rest), value=-torch.inf) if rest else scores).view(len(scores), -1, GROUP)
    return _Groups(groups, groups.amax(-1))


def _mass(grouped: _Groups, top: Tensor, beta: float, count: int) -> Tensor:
    """The sum of `exp(beta * (score - top))`, (b, 1). Left out is less than a thousandth of the best."""
    floor = torch.where(top == -torch.inf, 0.0, top)
    near = beta * (grouped.tops - floor) > -(NEGLIGIBLE + log(count))
    rows, places = near.nonzero(as_tuple=True)
    sums = (grouped.scores[rows, places] - floor[rows]).mul_(beta).exp_().sum(-1)
    return torch.zeros_like(floor).index_add_(0, rows, sums.unsqueeze(-1))
