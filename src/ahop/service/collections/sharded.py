"""Collections whose patterns lie in the shards of a cluster, in other processes."""

from collections.abc import Sequence
from contextlib import ExitStack
from typing import TypeAlias, final
from weakref import finalize

import torch
from torch import Tensor
from typing_extensions import override

from ahop.errors import UnsupportedError
from ahop.memory.recall import Recall
from ahop.scale.cluster.view import ShardedRecaller
from ahop.service.collections.batching import Cost
from ahop.service.collections.collection import Collection
from ahop.service.collections.columns import longest
from ahop.service.collections.snapshot import ALL, UNNAMED, BaseSnapshot, Filter, Passing, RecallOptions


@final
class ShardedSnapshot(BaseSnapshot):
    """One version of a store, whose shards stay as long as anybody asks this."""

    def __init__(self, recaller: ShardedRecaller) -> None:
        holding = ExitStack()
        self._shards = holding.enter_context(recaller.held())
        finalize(self, holding.close)
        view = self._view = self._shards.view
        self.version, self.filters = view.version, view.kinds
        self.model, self.columns, self.example = view.model, view.columns, torch.zeros(1, view.dimensions)
        self.label_bytes, self.name_bytes = 0, longest(view.columns or [UNNAMED])

    @override
    def __len__(self) -> int:
        return self._view.rows

    @override
    def rows(self, where: Filter, forced: Filter = None) -> tuple[str, Passing | None]:
        words = [f"({self._view.filter(each)})" for each in (where, forced) if each is not None]
        return (name := " AND ".join(words)), name or None

    @override
    def count(self, rows: Passing | None) -> int:
        assert not isinstance(rows, Tensor)
        return self._view.count(rows)

    @override
    def numbers_of(self, rows: Tensor) -> Tensor:
        return rows

    @override
    def answers(self, queries: Tensor, k: int, options: RecallOptions = ALL) -> Recall[Tensor]:
        assert not isinstance(options.rows, Tensor)
        return self._view.recalled(self._shards.answers, queries, k, options.rows, options.groups)


@final
class ShardedCollection:
    """A name, the shards of a store, and their newest version.

    It answers, and moves to newer versions of its store. Whatever looks at patterns, or changes them, is refused.

    Args:
        recaller: a cluster.
        is_own: the cluster is closed with the collection.
    """

    kind, state = "cluster", None

    def __init__(self, name: str, recaller: ShardedRecaller, is_own: bool = False) -> None:
        self.name, self._recaller, self._is_own = name, recaller, is_own
        self.snapshot = ShardedSnapshot(recaller)
        self.cost = Cost.of(self.snapshot)

    def cost_of(self, snapshot: BaseSnapshot, k: int, same: Sequence[object] | None) -> Cost:
        return self.cost

    def refresh(self) -> ShardedSnapshot:
        """Move to the newest version: new shards are read while the old ones answer."""
        self._recaller.refresh()
        self.snapshot = ShardedSnapshot(self._recaller)
        return self.snapshot

    def follow(self) -> None:
        """Move to the newest version, if there is a new one."""
        if self._recaller.newest().version != self.snapshot.version:
            self.refresh()

    def compact(self) -> None:
        """Leave the store to those who write to it."""

    def facts(self) -> dict[str, float]:
        return {}

    def close(self) -> None:
        del self.snapshot
        if self._is_own:
            self._recaller.close()


Served: TypeAlias = Collection | ShardedCollection


def held(collection: Served) -> Collection:
    """A collection whose patterns are in this process; others are refused."""
    if isinstance(collection, ShardedCollection):
        raise refusal_of_shards("This")
    return collection


def refusal_of_shards(words: str) -> UnsupportedError:
    return UnsupportedError(
        f"{words} cannot be asked of a cluster, whose patterns lie in other processes: it answers `recall`. Serve its "
        "store without shards for that; to change patterns, write to the store, and POST `refresh`."
    )
