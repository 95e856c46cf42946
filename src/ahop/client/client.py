"""A client of the service: it recalls as a memory does."""

from collections.abc import Callable
from functools import update_wrapper
from typing import Any, Concatenate, ParamSpec, TypeVar, final

import httpx2

from ahop.client.requests import Requests, Steps

Given = ParamSpec("Given")
Result = TypeVar("Result")


def _verb(
    steps: Callable[Concatenate[Any, Given], Steps[Result]],
) -> Callable[Concatenate["Client", Given], Result]:
    """Turn the requests of a verb into a call that waits for their answers."""

    def run(client: "Client", /, *given: Given.args, **named: Given.kwargs) -> Result:
        return client._run(steps(client, *given, **named))

    update_wrapper(run, steps)
    return run


@final
class Client(Requests):
    """A collection of a service, on this machine or another. Several threads may ask.

    Args:
        url: of the service, such as `http://127.0.0.1:8000`.
        collection: its name; not needed if there is but one.
        key: the secret, if the service asks for one.
        timeout: seconds to wait for an answer.
        patterns: answer the stored patterns too. Without them answers are much smaller, and `Recall.patterns` is empty.
        connections: requests at a time; others wait.
    """

    def __init__(self, url: str, collection: str | None = None, **settings: Any) -> None:
        super().__init__(url, collection, **settings)
        self._http = httpx2.Client(transport=httpx2.HTTPTransport(retries=1, limits=self._pool), **self._settings)
        self._run(self._connect())

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

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if hasattr(self, "_http"):
            self.close()

    def _run(self, steps: Steps[Result]) -> Result:
        try:
            request = next(steps)
            while True:
                response = self._http.request(request.method, self.url + request.path, json=request.body)
                request = steps.send(self._read(response))
        except StopIteration as end:
            result: Result = end.value
            return result
        except httpx2.HTTPError as error:
            raise self._unavailable(error) from error
