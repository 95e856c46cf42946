"""Messages to and from shards, and how the results of all shards are merged."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import pad

from ahop._core.blocks import blocks
from ahop.memory.model import Model
from ahop.memory.ranking import Ranked, merged, posterior_of
from ahop.memory.recall import Recall
from ahop.memory.unknown import Evidence

# Queries of one message, and the bytes that all answers to it may have together.
MESSAGE_ROWS, MESSAGE_BYTES = 1024, 16 * 2**20


@dataclass(frozen=True)
class Message:
    """A block of queries, as a shard gets it.

    Attributes:
        queries: (b, d) float32.
        groups: where each comes from; None if nobody knows.
        asks_worst: for the worst scores of the shard alone, which those of all shards together need.
        worst: (b, m) the worst scores of all shards; None where no score depends on other patterns.
    """

    queries: NDArray[Any]
    groups: list[str] | None = None
    asks_worst: bool = False
    worst: NDArray[Any] | None = None


@dataclass(frozen=True)
class ShardResult:
    """The best rows of one shard: a `Ranked` as numpy arrays, which any process can read; or its worst scores."""

    arrays: dict[str, NDArray[Any]]
    rows: int

    @classmethod
    def of(cls, ranked: Ranked) -> "ShardResult":
        named = {name: getattr(ranked, name) for name in ("ids", "scores", "log_mass", "known", "patterns")}
        if ranked.evidence is not None:
            named |= {f"evidence.{each.name}": getattr(ranked.evidence, each.name) for each in fields(Evidence)}
        return cls({name: value.numpy() for name, value in named.items()}, ranked.rows)

    def ranked(self) -> Ranked:
        """Copy into tensors of their own: arrays that came over a wire may be read-only."""
        found = {name: torch.from_numpy(np.array(value)) for name, value in self.arrays.items()}
        names = [f"evidence.{each.name}" for each in fields(Evidence)]
        evidence = Evidence(*(found.pop(name) for name in names)) if names[0] in found else None
        return Ranked(**found, rows=self.rows, evidence=evidence)


def worst_count(model: Model) -> int:
    """Number of worst scores of a query, in whatever group it is."""
    return max(each.worst_count for each in (model.similarity, *model.groups.values()))


def message_blocks(count: int, dimensions: int, k: int, shards: int) -> Iterator[slice]:
    """Blocks of queries whose answers are small messages: the same wherever the shards are, and so are the answers."""
    each = 4 * dimensions * (1 + shards * (k + 3))
    for rows in blocks(count, each, MESSAGE_BYTES):
        yield from (
            slice(start, min(start + MESSAGE_ROWS, rows.stop)) for start in range(rows.start, rows.stop, MESSAGE_ROWS)
        )


def depth_for(model: Model, k: int, candidates: int) -> int:
    """Number of rows that a shard must answer with: separations other than a softmax weigh the best by one another."""
    return k if model.weighs_by_mass else max(k, candidates)


def merge(answers: Sequence[ShardResult], model: Model, k: int) -> Recall[Tensor]:
    """The k best of all shards, of equals the one with the lower number: the same in whatever order they came."""
    depth = sum(answer.arrays["ids"].shape[1] for answer in answers)
    ranked = merged([answer.ranked() for answer in answers], depth, model.beta)
    posterior, unknown = posterior_of(ranked, model, k)
    best = ranked.best(k)
    assert best.patterns is not None
    missing, short = torch.isneginf(best.scores), k - best.ids.shape[1]
    ids = pad(best.ids.masked_fill(missing, -1), (0, short), value=-1)
    patterns = pad(best.patterns.masked_fill(missing.unsqueeze(-1), torch.nan), (0, 0, 0, short), value=torch.nan)
    return Recall(ids, pad(posterior, (0, short)), patterns, unknown, is_checked=model.is_checked)
