"""HTTP service on Ray Serve."""

import asyncio
import json
import os
import socket
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from http import HTTPStatus
from typing import Any, final

import numpy as np

from ahop import _optional
from ahop._checks import check_count
from ahop.cluster.cluster import Cluster, connect
from ahop.cluster.options import ShardOptions
from ahop.cluster.replicas import ReplicaSet
from ahop.cluster.request import MOST_BYTES, read_request
from ahop.cluster.router import Router, Timeouts
from ahop.cluster.spec import ShardSpec
from ahop.cluster.view import View
from ahop.errors import AhopError, InvalidValueError, UnavailableError, UnsupportedError
from ahop.stores.location import Address
from ahop.stores.store import Store, open_store

# Requests that one process works on at a time, and that may wait for it; the others are told to come back.
AT_A_TIME, WAITING = 16, 256
# How many times too large a body may be for its sender to hear so.
HEARD = 8
# After how many seconds to come back.
COME_BACK = 1


@final
class RecallDeployment:
    """What runs behind the HTTP proxy: one question in, one answer out."""

    def __init__(self, spec: ShardSpec, handles: list[list[Any]], candidates: int, timeouts: Timeouts) -> None:
        store = open_store(spec.address, spec.version, spec.storage_options)
        self._view = View(store, len(handles), candidates)
        self._router = Router([ReplicaSet(each) for each in handles], timeouts)
        self._pool = ThreadPoolExecutor(AT_A_TIME)

    async def __call__(self, request: Any) -> Any:
        status, words, headers = await self._answer(request)
        return _optional.starlette_responses().Response(
            json.dumps(words), status, headers | {"X-Content-Type-Options": "nosniff"}, "application/json"
        )

    async def _answer(self, request: Any) -> tuple[int, dict[str, Any], dict[str, str]]:
        path = request.url.path.rstrip("/")
        allowed = {"/recall": "POST", "/health": "GET"}.get(path)
        if allowed is None:
            return HTTPStatus.NOT_FOUND, {"error": "There is POST /recall and GET /health."}, {}
        if request.method != allowed:
            return HTTPStatus.METHOD_NOT_ALLOWED, {"error": f"{path} takes {allowed}."}, {"Allow": allowed}
        if path == "/health":
            return HTTPStatus.OK, self._facts(), {}
        body = await _body(request)
        if body is None:
            return HTTPStatus.REQUEST_ENTITY_TOO_LARGE, {"error": f"The body may have {MOST_BYTES} bytes."}, {}
        try:
            return HTTPStatus.OK, await asyncio.get_running_loop().run_in_executor(self._pool, self._recall, body), {}
        except UnavailableError as error:
            return HTTPStatus.SERVICE_UNAVAILABLE, {"error": str(error)}, {"Retry-After": str(COME_BACK)}
        except AhopError as error:
            return HTTPStatus.BAD_REQUEST, {"error": str(error)}, {}

    def _recall(self, body: bytes) -> dict[str, Any]:
        asked = read_request(body, self._view.dimensions)
        found = self._view.recall(self._router.answers, asked.queries, asked.k, asked.where, asked.groups)
        words = {"indices": found.indices.tolist(), "posterior": found.posterior.tolist()}
        if found.unknown is not None:
            words["unknown"] = found.unknown.tolist()
        if asked.patterns:
            numbers = found.patterns.astype(object)
            numbers[np.isnan(found.patterns)] = None  # JSON has no NaN
            words["patterns"] = numbers.tolist()
        return words | {"version": self._view.version}

    def _facts(self) -> dict[str, Any]:
        view = self._view
        return {"version": view.version, "patterns": view.rows, "dimensions": view.dimensions, "shards": view.shards}


def _refuse_taken(host: str, port: int) -> None:
    """Ray Serve shares its port with whoever else does, and the system would send each of them some of the requests."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as tried:
        if os.name == "posix":  # connections that are about to end are nobody's
            tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            tried.bind((host, port))
        except (OSError, OverflowError) as error:
            raise InvalidValueError(f"`port` must be free on `{host}`; got {port}: {error}.") from error


async def _body(request: Any) -> bytes | None:
    """All of it; None if it is too large. Then it is not kept, but taken for a while: who still sends cannot hear."""
    body, taken = bytearray(), 0
    async for chunk in request.stream():
        taken += len(chunk)
        if taken <= MOST_BYTES:
            body += chunk
        elif taken > HEARD * MOST_BYTES:
            break
    return bytes(body) if taken <= MOST_BYTES else None


@final
class Service:
    """A cluster and its HTTP processes; made by `serve`. It ends with the process that made it.

    Attributes:
        url: where it answers.
    """

    def __init__(self, cluster: Cluster, host: str, port: int, http_processes: int, name: str) -> None:
        self.cluster, self.url = cluster, f"http://{host}:{port}"
        self._deployments, self._name, self._serve = (
            check_count("http_processes", http_processes),
            name,
            _optional.ray_serve(),
        )
        if self._serve.status().proxies:  # it would go on as it was started, on whatever address that was
            raise UnsupportedError("Ray Serve is running in this Ray already: close that service, or take another Ray.")
        self._serve.start(http_options={"host": host, "port": port})
        self._open()

    def refresh(self) -> int:
        """Move to the newest version of the store: new shards, then new HTTP processes, then the old ones end."""
        with self.cluster.held() as old:
            version = self.cluster.refresh()
            if version != old.view.version:
                self._open()
        return version

    def close(self) -> None:
        self._serve.shutdown()
        self.cluster.close()

    def __enter__(self) -> "Service":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _open(self) -> None:
        with self.cluster.held() as generation:
            deployment = self._serve.deployment(RecallDeployment).options(
                name="recall",
                num_replicas=self._deployments,
                max_ongoing_requests=AT_A_TIME,
                max_queued_requests=WAITING,
                ray_actor_options={"num_cpus": 0.25},
            )
            bound = deployment.bind(
                generation.specs[0], generation.handles, generation.view.candidates, generation.timeouts
            )
            self._serve.run(bound, name=self._name, route_prefix="/")


def serve(
    store: Store | Address,
    shards: int = 4,
    replicas: int = 1,
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    http_processes: int = 1,
    name: str = "ahop",
    address: str | None = None,
    cpus: float = 0.5,
    options: ShardOptions | None = None,
    timeouts: Timeouts | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> Service:
    """Answer `POST /recall` from the shards of a store.

    There is no key: whoever reaches the port may ask. It is bound to this machine alone unless `host` says
    otherwise; then put something in front that knows who may.

    Args:
        http_processes: processes that read requests and merge answers.
        host: `0.0.0.0` for all networks of the machine.

    The other arguments are those of `connect`.

    Raises:
        InvalidValueError: another process listens on this port.
        UnsupportedError: Ray Serve is running in this Ray already.
    """
    _refuse_taken(host, port)
    chosen = timeouts or Timeouts(answer=10.0)  # a client would rather be told to come back
    start = partial(connect, store, shards, replicas, address=address, cpus=cpus, options=options, timeouts=chosen)
    cluster = start(storage_options=storage_options)
    try:
        return Service(cluster, host, port, http_processes, name)
    except BaseException:
        cluster.close()
        raise
