"""What a shard answers with, as plain arrays; and how the answers of all shards become one."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import pad

from ahop._blocks import blocks
from ahop.indexes.engines.base import Background, Found
from ahop.indexes.merging import merged, posterior_of, weighs_by_mass
from ahop.memory import AssociativeMemory
from ahop.recaller import Recall

# Queries of one message, and the bytes that all answers to it may have together.
MESSAGE_ROWS, MESSAGE_BYTES = 1024, 16 * 2**20


@dataclass(frozen=True)
class Answer:
    """The best rows of one shard, best first.

    Attributes:
        ids: (b, k) numbers of patterns; -1 where there are no more.
        scores: (b, k) exact; minus infinity there.
        patterns: (b, k, d).
        log_mass: (b,) logarithm of what all rows of the shard weigh.
        background: (3, b) what is left, mean and spread of the scores of all rows, if the memory has a detector.
        count: how many rows were looked at.
    """

    ids: NDArray[Any]
    scores: NDArray[Any]
    patterns: NDArray[Any]
    log_mass: NDArray[Any]
    background: NDArray[Any] | None
    count: int

    def found(self) -> Found:
        """The same with tensors of their own: arrays that came over a wire may be read-only."""
        behind = None
        if self.background is not None:
            rest, mean, spread = _tensor(self.background)
            behind = Background(rest, mean, spread, self.count)
        return Found(_tensor(self.ids), _tensor(self.scores), _tensor(self.log_mass), behind, self.count)


def message_blocks(count: int, dimensions: int, k: int, shards: int) -> Iterator[slice]:
    """Blocks of queries whose answers are small messages: the same wherever the shards are, and so are the answers."""
    each = 4 * dimensions * (1 + shards * (k + 3))
    for rows in blocks(count, each, MESSAGE_BYTES):
        yield from (
            slice(start, min(start + MESSAGE_ROWS, rows.stop)) for start in range(rows.start, rows.stop, MESSAGE_ROWS)
        )


def depth_for(model: AssociativeMemory, k: int, candidates: int) -> int:
    """How many rows a shard must answer with: separations other than a softmax weigh the best by one another."""
    return k if weighs_by_mass(model) else max(k, candidates)


def merge(answers: Sequence[Answer], model: AssociativeMemory, k: int) -> Recall[Tensor]:
    """The k best of all shards, of equals the one with the lower number: the same in whatever order they came."""
    found = merged([answer.found() for answer in answers], sum(answer.ids.shape[1] for answer in answers))
    patterns = torch.cat([_tensor(answer.patterns) for answer in answers], dim=1)
    ids = torch.cat([_tensor(answer.ids) for answer in answers], dim=1)
    scores = torch.cat([_tensor(answer.scores) for answer in answers], dim=1)
    by_id = ids.argsort(dim=-1, stable=True)
    by_score = scores.gather(-1, by_id).argsort(dim=-1, descending=True, stable=True)
    order = by_id.gather(-1, by_score)[:, :k]
    _, posterior, unknown = posterior_of(found, model, k)
    chosen = patterns.gather(1, order.unsqueeze(-1).expand(-1, -1, patterns.shape[-1]))
    missing = torch.isneginf(scores.gather(-1, order))
    ids, short = ids.gather(-1, order).masked_fill(missing, -1), k - order.shape[1]
    chosen = chosen.masked_fill(missing.unsqueeze(-1), torch.nan)
    return Recall(pad(ids, (0, short), value=-1), posterior, pad(chosen, (0, 0, 0, short), value=torch.nan), unknown)


def _tensor(array: NDArray[Any]) -> Tensor:
    return torch.from_numpy(np.array(array))
