"""A cluster in one process, with threads instead of Ray."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import final

from typing_extensions import override

from ahop._core.checks import check_count
from ahop.scale.cluster.messages import Message, ShardResult
from ahop.scale.cluster.shard import Shard
from ahop.scale.cluster.spec import ShardOptions, as_store, shard_specs
from ahop.scale.cluster.view import ShardedRecaller, Shards, View
from ahop.scale.stores.location import Address
from ahop.scale.stores.store import Store


@final
class LocalCluster(ShardedRecaller):
    """The shards of a store, asked by threads.

    Args:
        store: in the version that this handle sees; an address stands for the newest.
        shards: how many; fewer if there are fewer rows.
        threads: that ask shards at the same time, each of which may use as many as torch is allowed.
    """

    def __init__(
        self,
        store: Store | Address,
        shards: int = 4,
        *,
        threads: int = 1,
        options: ShardOptions | None = None,
    ) -> None:
        self._count, self._options = shards, options or ShardOptions()
        self._pool = ThreadPoolExecutor(check_count("threads", threads))
        self._shards = self._read(as_store(store))

    @property
    @override
    def view(self) -> View:
        return self._shards.view

    @override
    @contextmanager
    def held(self) -> Iterator[Shards]:
        yield self._shards

    @override
    def refresh(self) -> int:
        store = self.newest()
        if store.version != self.version:
            self._shards = self._read(store)
        return self.version

    @override
    def close(self) -> None:
        self._pool.shutdown()

    def _read(self, store: Store) -> "_Threads":
        specs = shard_specs(store, self._count)
        shards = list(self._pool.map(lambda spec: Shard(spec, self._options), specs))
        return _Threads(View(store, len(specs), self._options.candidates), shards, self._pool)


@dataclass(frozen=True)
class _Threads:
    """Shards of one version, and the threads that ask them."""

    view: View
    shards: list[Shard]
    pool: ThreadPoolExecutor

    def answers(self, messages: Iterator[Message], k: int, where: str | None) -> Iterator[list[ShardResult]]:
        for message in messages:
            yield list(self.pool.map(partial(_search, message=message, k=k, where=where), self.shards))


def _search(shard: Shard, message: Message, k: int, where: str | None) -> ShardResult:
    return shard.search(message, k, where)
