"""The routes."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from http import HTTPStatus
from pathlib import Path
from typing import TypeVar, final

from fastapi import FastAPI, Request
from fastapi.responses import HTMLResponse, Response
from starlette.exceptions import HTTPException
from torch import Tensor

from ahop.errors import InvalidTypeError, InvalidValueError, UnavailableError
from ahop.recaller import Recall
from ahop.service import request as reading
from ahop.service import schema
from ahop.service.answers import RefusedError, bytes_of, check_size, json_response, numbers_of, recall_words
from ahop.service.arrow import STREAM, read_arrow, write_arrow
from ahop.service.batching import BusyError, Job, Worker
from ahop.service.collection import Collection
from ahop.service.feedback import Feedback, Review
from ahop.service.gate import Gate, Held, told_of
from ahop.service.metrics import CONTENT_TYPE, Metrics
from ahop.service.options import Options
from ahop.service.pages import FILES, page_file, routes_page
from ahop.service.refit import Refits
from ahop.service.request import RecallRequest
from ahop.service.snapshot import Snapshot

Result = TypeVar("Result")
# How many times too large a body may be for its sender to hear so.
HEARD = 4
# Bodies of more bytes are read, and answers of more numbers are written, beside the thread that listens.
LARGE = 2**17
# Turns that queries of one origin may take.
TURNS = 20


@final
class Routes:
    """What the routes of one service share."""

    def __init__(self, collections: Mapping[str, Collection], options: Options) -> None:
        self.collections, self.options, self.limits = dict(collections), options, options.limits
        self.worker, self.metrics, self.refits = Worker(options), Metrics(), Refits(options.limits.fit_seconds)
        self.metrics.watch(lambda: self.worker.waiting)
        self.feedback = {
            name: Feedback(each.state, each.snapshot.dimensions, options.limits) for name, each in collections.items()
        }
        self.reviews = {name: Review(options) for name in collections}
        self.held, self._explaining = Held(), 0
        self._beside = ThreadPoolExecutor(2, "ahop-beside")
        self._writing = ThreadPoolExecutor(1, "ahop-writing")

    def close(self) -> None:
        self.refits.close()
        self.worker.close()
        self._beside.shutdown()
        self._writing.shutdown()

    # What is open to everybody.

    async def livez(self) -> Response:
        """Whether the process runs."""
        return json_response({"status": "alive"})

    async def readyz(self) -> Response:
        """Whether it takes requests; not any more once it was told to end."""
        if self.held.is_draining:
            raise RefusedError(HTTPStatus.SERVICE_UNAVAILABLE, "The service is ending.", "Ask another one.")
        return json_response({"status": "ready"})

    # Reading.

    async def listed(self, request: Request) -> Response:
        """The collections that the key opens."""
        key = told_of(request).key
        found = [
            {
                "name": name,
                "kind": each.source.kind,
                "version": each.snapshot.version,
                "dimensions": each.snapshot.dimensions,
            }
            for name, each in self.collections.items()
            if key.opens(name)
        ]
        return json_response({"collections": found})

    async def inspected(self, name: str, request: Request) -> Response:
        """What a collection holds, what was learned, and what a request may cost."""
        collection = self._collection(name, request)
        snapshot, key = collection.snapshot, told_of(request).key
        memory, limits = snapshot.memory, self.limits
        rows = snapshot.rows(None, key.where)[1]
        words = {
            "name": name,
            "kind": collection.source.kind,
            "version": snapshot.version,
            "patterns": len(snapshot) if rows is None else len(rows),
            "dimensions": snapshot.dimensions,
            "names": None if memory.dimensions is None else list(memory.dimensions),
            "has_labels": memory.labels is not None,
            "columns": {each: column.kind.__name__ for each, column in snapshot.columns.columns.items()},
            "groups": memory.model.group_names[:1000],
            "tells_unknown": memory.detector is not None,
            "report": None if memory.report is None else str(memory.report),
            "pairs": len(self.feedback[name]),
            "bytes": bytes_of(snapshot),
            "limits": {
                each: getattr(limits, each)
                for each in ("body_bytes", "queries", "answers", "answer_bytes", "explained")
            },
        }
        return json_response(words)

    async def recall(self, name: str, request: Request) -> Response:
        """The k stored patterns that each query most likely came from."""
        collection, told = self._collection(name, request), told_of(request)
        body = await self._body(request)
        self.worker.check_free(collection.cost.seconds(1))  # before any work is done on it
        snapshot = collection.snapshot
        asked = await self._maybe_beside(len(body) > LARGE, lambda: self._read_recall(request, body, snapshot))
        told.queries = len(asked.queries)
        filter_name, rows = snapshot.rows(asked.where, told.key.where)
        found = await self._answered(collection, snapshot, asked, filter_name, rows)
        confidence = found.confidence
        unknown = None if found.unknown is None else float(found.unknown.sum())
        self.metrics.answered(name, len(found.indices), float(confidence.sum()), unknown)
        if asked.same is None:
            self.reviews[name].look(
                told.id, snapshot.version, asked.queries, numbers_of(snapshot, found.indices), found
            )
        size = found.indices.numel() * (snapshot.dimensions if asked.patterns else 1)
        is_arrow = STREAM in request.headers.get("accept", "")

        def written() -> Response:
            words = recall_words(asked, snapshot, found, rows)
            return Response(write_arrow(words), media_type=STREAM) if is_arrow else json_response(words)

        if not asked.explain:
            return await self._maybe_beside(size > LARGE // 16, written)
        if self._explaining >= self.limits.explaining:
            raise BusyError(1)
        self._explaining += 1
        try:
            return await self._maybe_beside(True, written)
        finally:
            self._explaining -= 1

    async def versions(self, name: str, request: Request) -> Response:
        """The versions whose model can be answered from again, and the fits of late."""
        collection = self._collection(name, request, writes=True)
        found = await self._write(collection.versions)
        words = [
            {"version": each.number, "current": each.is_current} | ({} if each.when is None else {"when": each.when})
            for each in found
        ]
        return json_response({"versions": words, "fits": [job.facts() for job in self.refits.of(name)]})

    async def review(self, name: str, request: Request) -> Response:
        """Answers of late that a person should look at, if the service was started to keep them."""
        self._collection(name, request, writes=True)
        kept = self.reviews[name]
        if not kept.is_on:
            raise RefusedError(
                HTTPStatus.CONFLICT,
                "No answers are kept for review: that would keep queries too.",
                "Start the service with `--review 100` to keep the last hundred in memory.",
            )
        return json_response({"review": kept.entries(100)})

    async def measured(self, request: Request) -> Response:
        """Counters for Prometheus."""
        key = told_of(request).key
        if key.collections is not None or key.where is not None:
            raise RefusedError(HTTPStatus.FORBIDDEN, "This key is for some collections; counters are of all.")
        for name, each in self.collections.items():
            snapshot = each.snapshot
            facts = await self._write(each.facts)
            self.metrics.state(name, snapshot.version, len(snapshot), len(self.feedback[name]), facts)
        return Response(self.metrics.text(), media_type=CONTENT_TYPE)

    # Writing.

    async def add(self, name: str, request: Request) -> Response:
        """Store more patterns."""
        collection = self._collection(name, request, writes=True)
        asked = reading.read_json(await self._body(request), reading.ADD)
        patterns = reading.read_rows(
            "patterns", asked.get("patterns"), collection.snapshot.dimensions, self.limits.queries
        )
        ids = None if asked.get("ids") is None else reading.read_ids(asked["ids"], len(patterns))
        metadata = asked.get("metadata") or {}
        if not isinstance(metadata, dict) or not all(isinstance(each, list) for each in metadata.values()):
            raise InvalidTypeError("`metadata` must be columns, each a list with one entry for each pattern.")
        snapshot, numbers = await self._write(lambda: collection.add(patterns, ids, metadata))
        return json_response({"ids": numbers, "version": snapshot.version}, HTTPStatus.CREATED)

    async def delete(self, name: str, request: Request) -> Response:
        """Forget patterns."""
        collection = self._collection(name, request, writes=True)
        ids = reading.read_ids(reading.read_json(await self._body(request), reading.DELETE).get("ids"))
        snapshot = await self._write(lambda: collection.remove(ids))
        return json_response({"version": snapshot.version})

    async def pairs(self, name: str, request: Request) -> Response:
        """Feedback: which row each of these queries came from. It is kept for the next fit."""
        collection = self._collection(name, request, writes=True)
        asked, snapshot = reading.read_json(await self._body(request), reading.PAIRS), collection.snapshot
        queries = reading.read_rows("queries", asked.get("queries"), snapshot.dimensions, self.limits.queries)
        ids = reading.read_ids(asked.get("ids"), len(queries))
        groups = reading.read_groups(asked.get("groups"), len(queries))
        strange = [number for number in ids if snapshot.row_of(number) is None]
        if strange:
            raise InvalidValueError(f"`ids` must be numbers of stored rows; {strange[0]} is none of them.")
        await self._write(lambda: self.feedback[name].add(queries, ids, groups))
        return json_response({"pairs": len(self.feedback[name])}, HTTPStatus.CREATED)

    async def fit(self, name: str, request: Request) -> Response:
        """Learn anew, in the background, from the pairs that are kept and from queries whose origins nobody knows."""
        collection = self._collection(name, request, writes=True)
        asked = reading.read_json(await self._body(request) or b"{}", reading.FIT)
        queries, similarity = None, asked.get("similarity")
        if asked.get("queries") is not None:
            most = self.limits.pairs
            queries = reading.read_rows("queries", asked["queries"], collection.snapshot.dimensions, most)
        if similarity is not None and not isinstance(similarity, str):
            raise InvalidTypeError(f"`similarity` must be a word; got {reading.kind_of(similarity)}.")
        pairs = self.feedback[name].pairs()
        job = await self._write(lambda: self.refits.start(collection, pairs, queries, similarity))
        return json_response(job.facts(), HTTPStatus.ACCEPTED)

    async def activate(self, name: str, version: str, request: Request) -> Response:
        """Answer with the model of this version from now on; the patterns stay as they are."""
        collection = self._collection(name, request, writes=True)
        if not version.isascii() or not version.isdigit() or len(version) > 18:
            raise InvalidValueError("The version must be a whole number.")
        snapshot = await self._write(lambda: collection.activate(int(version)))
        return json_response({"version": snapshot.version})

    async def refresh(self, name: str, request: Request) -> Response:
        """See what others have written to the store."""
        collection = self._collection(name, request, writes=True)
        snapshot = await self._write(collection.refresh)
        return json_response({"version": snapshot.version, "patterns": len(snapshot)})

    # What they share.

    def _collection(self, name: str, request: Request, writes: bool = False) -> Collection:
        told = told_of(request)
        if name not in self.collections or not told.key.opens(name):
            raise RefusedError(
                HTTPStatus.NOT_FOUND, "There is no such collection.", "GET /collections lists those that there are."
            )
        told.collection = name
        if writes and not told.key.may_write:
            raise RefusedError(HTTPStatus.FORBIDDEN, "This key may only read.", "Use a key with `may_write`.")
        return self.collections[name]

    async def _body(self, request: Request) -> bytes:
        """All of it. One that is too large is not kept, but taken for a while: who still sends cannot hear."""
        most, body, taken, told = self.limits.body_bytes, bytearray(), 0, told_of(request)
        try:
            async with asyncio.timeout(self.limits.body_seconds):
                async for chunk in request.stream():
                    taken += len(chunk)
                    if taken <= most:
                        body += chunk
                        self.held.bytes += len(chunk)
                        told.held_bytes += len(chunk)
                    if taken > HEARD * most or self.held.bytes > self.limits.held_bytes:
                        break
        except TimeoutError:
            raise RefusedError(
                HTTPStatus.REQUEST_TIMEOUT,
                f"The body was not here after {self.limits.body_seconds:g} seconds.",
                Connection="close",
            ) from None
        if self.held.bytes > self.limits.held_bytes:
            raise BusyError(1)
        if taken > most:
            raise RefusedError(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
                f"The body may have {most} bytes.",
                "Send fewer rows at a time.",
                Connection="close",
            )
        return bytes(body)

    def _read_recall(self, request: Request, body: bytes, snapshot: Snapshot) -> RecallRequest:
        limits, queries = self.limits, None
        if request.headers.get("content-type", "").split(";")[0].strip().lower() == STREAM:
            body, queries = read_arrow(body, snapshot.dimensions, limits.queries)
        known = [each for each in reading.RECALL if queries is None or each != "queries"]
        asked = reading.recall_request(reading.read_json(body, known), snapshot.dimensions, limits, queries)
        for each in asked.columns:
            if each not in snapshot.columns.columns:
                raise InvalidValueError(f"`columns` may name {sorted(snapshot.columns.columns)}; got {each[:100]!r}.")
        check_size(asked, snapshot, limits.answer_bytes)
        return asked

    async def _answered(
        self, collection: Collection, snapshot: Snapshot, asked: RecallRequest, filter_name: str, rows: Tensor | None
    ) -> Recall[Tensor]:
        """Wait for the thread that recalls."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Recall[Tensor]] = loop.create_future()

        def tell(found: Recall[Tensor] | BaseException) -> None:
            loop.call_soon_threadsafe(_set, future, found)

        queries = asked.queries.to(snapshot.memory.patterns)
        job = Job(
            snapshot,
            collection.cost,
            queries,
            asked.k,
            rows,
            filter_name,
            asked.groups,
            asked.same,
            asked.patterns,
            tell,
        )
        # What queries of one origin say is added in one go, which others wait for.
        longest = self.limits.work_seconds if asked.same is None else TURNS * self.options.slice_seconds
        if job.seconds_left > longest and len(queries) > 1:
            raise RefusedError(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
                f"These queries would take about {job.seconds_left:.0f} seconds.",
                f"Send at most {max(1, int(len(queries) * longest / job.seconds_left))} at a time.",
            )
        self.worker.check_free(job.seconds_left)
        self.worker.submit(job)
        try:
            await asyncio.wait({future}, timeout=self.limits.answer_seconds)
            if not future.done():
                raise UnavailableError(f"There was no answer after {self.limits.answer_seconds:g} seconds.")
            return future.result()
        finally:
            job.is_given_up = True

    async def _maybe_beside(self, is_large: bool, work: Callable[[], Result]) -> Result:
        return await asyncio.get_running_loop().run_in_executor(self._beside, work) if is_large else work()

    async def _write(self, work: Callable[[], Result]) -> Result:
        """One change at a time, beside the thread that listens."""
        return await asyncio.get_running_loop().run_in_executor(self._writing, work)


def create_app(collections: Mapping[str, Collection | str | Path], options: Options | None = None) -> FastAPI:
    """An ASGI application that answers from these collections.

    Args:
        collections: by name: a `Collection`, or the path of a memory's file or of a store.
        options: keys and limits; default no key, which is for the loopback alone.
    """
    opened = {
        name: each if isinstance(each, Collection) else Collection(name, each) for name, each in collections.items()
    }
    routes = Routes(opened, options or Options())

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        await asyncio.get_running_loop().run_in_executor(None, routes.close)

    app = FastAPI(title="ahop", docs_url=None, redoc_url=None, lifespan=lifespan, redirect_slashes=False)
    app.state.routes = routes
    one = "/collections/{name}"
    example = '{"queries": [[0.1, null, 0.3]], "k": 2}'
    for path, method, endpoint, extra in (
        ("/livez", "GET", routes.livez, {}),
        ("/readyz", "GET", routes.readyz, {}),
        ("/metrics", "GET", routes.measured, {}),
        ("/collections", "GET", routes.listed, {}),
        (one, "GET", routes.inspected, {}),
        (f"{one}/recall", "POST", routes.recall, schema.body(schema.RECALL, example, ("queries",))),
        (f"{one}/add", "POST", routes.add, schema.body(schema.ADD, '{"patterns": [[0.1, 0.2, 0.3]]}', ("patterns",))),
        (f"{one}/delete", "POST", routes.delete, schema.body(schema.DELETE, '{"ids": [17]}', ("ids",))),
        (
            f"{one}/pairs",
            "POST",
            routes.pairs,
            schema.body(schema.PAIRS, '{"queries": [[0.1, null, 0.3]], "ids": [17]}', ("queries", "ids")),
        ),
        (f"{one}/fit", "POST", routes.fit, schema.body(schema.FIT, "{}")),
        (f"{one}/versions", "GET", routes.versions, {}),
        (f"{one}/versions/{{version}}/activate", "POST", routes.activate, {}),
        (f"{one}/refresh", "POST", routes.refresh, {}),
        (f"{one}/review", "GET", routes.review, {}),
    ):
        app.add_api_route(
            path,
            endpoint,
            methods=[method],
            openapi_extra=extra or {"responses": schema.ERRORS},
            response_class=Response,
        )

    async def docs() -> Response:
        return HTMLResponse(routes_page(app.openapi()))

    app.add_api_route("/docs", docs, methods=["GET"], include_in_schema=False)
    for path in FILES:
        app.add_api_route(path, _page(path), methods=["GET"], include_in_schema=False)
    app.add_exception_handler(HTTPException, _not_routed)
    app.add_middleware(Gate, options=routes.options, metrics=routes.metrics, held=routes.held)
    return app


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
    return json_response({"error": words, "mend": "GET /docs lists the routes."}, error.status_code, headers)


def _set(future: "asyncio.Future[Recall[Tensor]]", found: Recall[Tensor] | BaseException) -> None:
    if future.done():
        return
    if isinstance(found, BaseException):
        future.set_exception(found)
    else:
        future.set_result(found)
