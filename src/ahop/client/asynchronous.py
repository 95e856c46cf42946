"""The client for programs that wait for many things at once."""

from collections.abc import Awaitable, Callable
from functools import update_wrapper
from typing import Any, Concatenate, ParamSpec, TypeVar, final

import httpx2

from ahop.client.requests import Requests, Steps

Given = ParamSpec("Given")
Result = TypeVar("Result")


def _verb(
    steps: Callable[Concatenate[Any, Given], Steps[Result]],
) -> Callable[Concatenate["AsyncClient", Given], Awaitable[Result]]:
    """Turn the requests of a verb into a call to await."""

    async def run(client: "AsyncClient", /, *given: Given.args, **named: Given.kwargs) -> Result:
        return await client._run(steps(client, *given, **named))

    update_wrapper(run, steps)
    return run


@final
class AsyncClient(Requests):
    """A collection of a service, whose verbs are awaited. They take and give what those of a `Client` do::

        async with await AsyncClient.open("http://127.0.0.1:8000", "phones") as client:
            answers = await asyncio.gather(*(client.recall(each) for each in batches))

    Use `open` to make one; it takes the arguments of a `Client`.
    """

    def __init__(self, url: str, collection: str | None = None, **settings: Any) -> None:
        super().__init__(url, collection, **settings)
        transport = httpx2.AsyncHTTPTransport(retries=1, limits=self._pool)
        self._http = httpx2.AsyncClient(transport=transport, **self._settings)

    @classmethod
    async def open(cls, url: str, collection: str | None = None, **settings: Any) -> "AsyncClient":
        """Connect to a service; settings as of a `Client`."""
        client = cls(url, collection, **settings)
        try:
            await client._run(client._connect())
        except BaseException:
            await client.close()
            raise
        return client

    recall = _verb(Requests._recall)
    explain = _verb(Requests._explain)
    link = _verb(Requests._link)
    inspect = _verb(Requests._inspect)
    refresh = _verb(Requests._refresh)
    add = _verb(Requests._add)
    remove = _verb(Requests._remove)
    tell = _verb(Requests._tell)
    fit = _verb(Requests._fit)
    versions = _verb(Requests._versions)
    activate = _verb(Requests._activate)
    restore = _verb(Requests._restore)

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def __aenter__(self) -> "AsyncClient":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _run(self, steps: Steps[Result]) -> Result:
        try:
            request = next(steps)
            while True:
                response = await self._http.request(request.method, self.url + request.path, json=request.body)
                request = steps.send(self._read(response))
        except StopIteration as end:
            result: Result = end.value
            return result
        except httpx2.HTTPError as error:
            raise self._unavailable(error) from error
