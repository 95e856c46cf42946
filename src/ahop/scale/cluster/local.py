"""A cluster in one process, with threads instead of Ray."""

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import final

from torch import Tensor
from typing_extensions import override

from ahop._core.checks import check_count
from ahop._core.typing import Queries
from ahop.memory.recall import Recall
from ahop.scale.cluster.messages import Message, ShardResult
from ahop.scale.cluster.shard import Shard
from ahop.scale.cluster.spec import ShardOptions, as_store, shard_specs
from ahop.scale.cluster.view import ShardedRecaller, View
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
        opened, chosen = as_store(store), options or ShardOptions()
        specs = shard_specs(opened, shards)
        self.view = View(opened, len(specs), chosen.candidates)
        self._pool = ThreadPoolExecutor(check_count("threads", threads))
        self.shards = list(self._pool.map(lambda spec: Shard(spec, chosen), specs))

    def __len__(self) -> int:
        return self.view.rows

    @property
    @override
    def address(self) -> str:
        return self.view.address

    @property
    @override
    def version(self) -> int:
        return self.view.version

    @override
    def _view(self) -> View:
        return self.view

    @override
    def _recalled(
        self, queries: Queries, k: int, where: Mapping[str, object] | None, groups: Sequence[object] | None
    ) -> Recall[Tensor]:
        return self.view.recalled(self._answers, queries, k, where, groups)

    @override
    def close(self) -> None:
        self._pool.shutdown()

    def _answers(self, messages: Iterator[Message], k: int, where: str | None) -> Iterator[list[ShardResult]]:
        for message in messages:
            yield list(self._pool.map(partial(_search, message=message, k=k, where=where), self.shards))


def _search(shard: Shard, message: Message, k: int, where: str | None) -> ShardResult:
    return shard.search(message, k, where)
