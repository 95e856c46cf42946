"""The client for programs that wait for many things at once."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar, final, overload

from numpy.typing import NDArray
from torch import Tensor

from ahop._core.checks import check_count
from ahop._core.typing import Array, Entries, NotTensor, RowsLike
from ahop.client.client import Client
from ahop.memory.explanation import Explanation
from ahop.memory.recall import Recall

Result = TypeVar("Result")


@final
class AsyncClient:
    """A collection of a service, whose verbs are awaited. They take and give what those of a `Client` do::

        async with await AsyncClient.open("http://127.0.0.1:8000", "phones") as client:
            answers = await asyncio.gather(*(client.recall(each) for each in batches))

    Args:
        client: it does the work, in threads.
        connections: requests at a time; others wait.
    """

    def __init__(self, client: Client, connections: int = 8) -> None:
        self.client = client
        self._threads = ThreadPoolExecutor(check_count("connections", connections), "ahop-client")

    @classmethod
    async def open(
        cls, url: str, collection: str | None = None, *, connections: int = 8, **settings: Any
    ) -> "AsyncClient":
        """Connect to a service; settings as of a `Client`."""
        client = await asyncio.to_thread(partial(Client, url, collection, **settings))
        return cls(client, connections)

    @overload
    async def recall(
        self,
        queries: Tensor,
        k: int = 1,
        *,
        where: Mapping[str, object] | None = None,
        groups: Sequence[object] | None = None,
        same: Entries | None = None,
    ) -> Recall[Tensor]: ...
    @overload
    async def recall(
        self,
        queries: NotTensor,
        k: int = 1,
        *,
        where: Mapping[str, object] | None = None,
        groups: Sequence[object] | None = None,
        same: Entries | None = None,
    ) -> Recall[NDArray[Any]]: ...
    async def recall(
        self,
        queries: RowsLike,
        k: int = 1,
        *,
        where: Mapping[str, object] | None = None,
        groups: Sequence[object] | None = None,
        same: Entries | None = None,
    ) -> Recall[Any]:
        return await self._do(lambda: self.client.recall(queries, k, where=where, groups=groups, same=same))

    async def explain(self, query: RowsLike | Entries, *, group: object = None) -> Explanation:
        return await self._do(lambda: self.client.explain(query, group=group))

    async def link(self, queries: RowsLike, **settings: Any) -> dict[str, Any]:
        return await self._do(lambda: self.client.link(queries, **settings))

    async def inspect(self) -> dict[str, Any]:
        return await self._do(self.client.inspect)

    async def add(
        self, patterns: RowsLike, ids: Array | None = None, metadata: Mapping[str, Any] | None = None
    ) -> Tensor:
        return await self._do(lambda: self.client.add(patterns, ids, metadata))

    async def remove(self, ids: Array) -> None:
        await self._do(lambda: self.client.remove(ids))

    async def tell(self, queries: RowsLike, ids: Array, groups: Sequence[object] | None = None) -> int:
        return await self._do(lambda: self.client.tell(queries, ids, groups))

    async def fit(self, queries: RowsLike | None = None, similarity: str | None = None) -> dict[str, Any]:
        return await self._do(lambda: self.client.fit(queries, similarity))

    async def versions(self) -> dict[str, Any]:
        return await self._do(self.client.versions)

    async def activate(self, version: int) -> None:
        await self._do(lambda: self.client.activate(version))

    async def restore(self, version: int) -> None:
        await self._do(lambda: self.client.restore(version))

    async def close(self) -> None:
        """Close the connections, once all that was asked is answered."""
        self.client.close()  # while the threads live that opened them
        await asyncio.to_thread(self._threads.shutdown)

    async def __aenter__(self) -> "AsyncClient":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _do(self, work: Callable[[], Result]) -> Result:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)
