"""The application: which path leads where."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeAlias

from fastapi import FastAPI, Request
from fastapi.responses import HTMLResponse, Response
from starlette.exceptions import HTTPException

from ahop.scale.cluster.cluster import connect
from ahop.scale.cluster.router import Timeouts
from ahop.scale.cluster.view import ShardedRecaller
from ahop.service import request as asking
from ahop.service.collections.collection import Collection
from ahop.service.collections.sharded import Served, ShardedCollection
from ahop.service.http import schema
from ahop.service.http.answers import json_response
from ahop.service.http.gate import Gate
from ahop.service.http.pages import FILES, page_file, routes_page
from ahop.service.http.reading import Reading
from ahop.service.http.shared import Shared
from ahop.service.http.writing import Writing
from ahop.service.options import Options

# A collection, or where its patterns are: in a file, in a store, or in a cluster.
Given: TypeAlias = Served | ShardedRecaller | str | Path
# Seconds that shards may take for an answer: who asks over HTTP would rather be told to come back.
SHARDS_SECONDS = 10.0


def create_app(collections: Mapping[str, Given], options: Options | None = None) -> FastAPI:
    """An ASGI application that answers from these collections.

    Args:
        collections: by name: a `Collection`, the path of a memory's file or of a store, or a cluster.
        options: keys and limits; default no key, which is for the loopback alone.
    """
    chosen = options or Options()
    shared = Shared({name: _opened(name, each, chosen) for name, each in collections.items()}, chosen)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        await asyncio.get_running_loop().run_in_executor(None, shared.close)

    app = FastAPI(
        title="ahop",
        version=version("ahop"),
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
        redirect_slashes=False,
    )
    app.state.shared = shared
    for path, method, endpoint, extra in _routes(shared):
        described = extra or {"responses": schema.ERRORS}
        app.add_api_route(path, endpoint, methods=[method], openapi_extra=described, response_class=Response)

    async def docs() -> Response:
        return HTMLResponse(routes_page(app.openapi()))

    app.add_api_route("/docs", docs, methods=["GET"], include_in_schema=False)
    for path in FILES:
        app.add_api_route(path, _page(path), methods=["GET"], include_in_schema=False)
    app.add_exception_handler(HTTPException, _not_routed)
    app.add_middleware(Gate, options=shared.options, metrics=shared.metrics, held=shared.held, tracer=shared.tracer)
    return app


def _opened(name: str, given: Given, options: Options) -> Served:
    """The collection of this name; a store lies in shards if these were asked for."""
    if isinstance(given, Collection | ShardedCollection):
        return given
    if isinstance(given, ShardedRecaller):
        return ShardedCollection(name, given)
    if not options.shards or Path(given).is_file():
        return Collection(name, given, index=options.index)
    timeouts = Timeouts(answer=SHARDS_SECONDS)
    cluster = connect(str(given), options.shards, options.replicas, address=options.ray, timeouts=timeouts)
    return ShardedCollection(name, cluster, is_own=True)


def _routes(shared: Shared) -> list[tuple[str, str, Callable[..., Awaitable[Response]], dict[str, Any]]]:
    """Path, method, what answers, and what OpenAPI says of it."""
    reading, writing = Reading(shared), Writing(shared)
    one = "/collections/{name}"
    body = schema.body
    queries, patterns = '{"queries": [[0.1, null, 0.3]]}', '{"patterns": [[0.1, 0.2, 0.3]]}'
    pairs = '{"queries": [[0.1, null, 0.3]], "ids": [17]}'
    return [
        ("/livez", "GET", reading.livez, {}),
        ("/readyz", "GET", reading.readyz, {}),
        ("/metrics", "GET", reading.measured, {}),
        ("/collections", "GET", reading.listed, {}),
        (one, "GET", reading.inspected, {}),
        (one, "PUT", writing.create, body(asking.CreateBody, patterns)),
        (f"{one}/recall", "POST", reading.recall, body(asking.RecallBody, queries)),
        (f"{one}/link", "POST", reading.link, body(asking.LinkBody, queries)),
        (f"{one}/add", "POST", writing.add, body(asking.AddBody, patterns)),
        (f"{one}/delete", "POST", writing.delete, body(asking.DeleteBody, '{"ids": [17]}')),
        (f"{one}/pairs", "POST", writing.pairs, body(asking.PairsBody, pairs)),
        (f"{one}/fit", "POST", writing.fit, body(asking.FitBody, "{}")),
        (f"{one}/versions", "GET", reading.versions, {}),
        (f"{one}/versions/{{version}}/activate", "POST", writing.activate, {}),
        (f"{one}/versions/{{version}}/restore", "POST", writing.restore, {}),
        (f"{one}/refresh", "POST", writing.refresh, {}),
        (f"{one}/review", "GET", reading.review, {}),
        (f"{one}/watch", "GET", reading.watch, {}),
    ]


def _page(path: str) -> Callable[[], Awaitable[Response]]:
    """For people who would rather click than type."""
    made = page_file(path)

    async def page() -> Response:
        return made

    return page


async def _not_routed(request: Request, error: Exception) -> Response:
    """No such path, or not with this method."""
    assert isinstance(error, HTTPException)
    words = {404: "There is no such path.", 405: "This path takes another method."}.get(
        error.status_code, "This cannot be answered."
    )
    headers = {name: value for name, value in (error.headers or {}).items() if name.lower() == "allow"}
    return json_response({"error": words, "hint": "GET /docs lists the routes."}, error.status_code, headers)
