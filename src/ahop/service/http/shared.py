"""State that the routes of one service share: its collections, the thread that recalls, the reading of requests."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus
from pathlib import Path
from typing import Any, TypeVar, final

from fastapi import Request
from filelock import FileLock
from torch import Tensor

from ahop.errors import ConflictError, UnavailableError
from ahop.memory.recall import Recall
from ahop.service.collections.batching import Job, Worker
from ahop.service.collections.collection import Collection, create, created
from ahop.service.collections.feedback import Feedback, Review
from ahop.service.collections.sharded import Served, held
from ahop.service.collections.snapshot import BaseSnapshot, Passing
from ahop.service.collections.watched import Watched
from ahop.service.http.answers import RefusedError
from ahop.service.http.body import receive_body
from ahop.service.http.gate import Held, told_of
from ahop.service.http.metrics import Metrics
from ahop.service.http.shedding import LoadShedder
from ahop.service.http.traces import tracer_of_environment
from ahop.service.jobs.refit import Refits
from ahop.service.jobs.upkeep import Upkeep
from ahop.service.keys import Key
from ahop.service.options import Options
from ahop.service.request import Bound, RecallRequest, bound_of

Result = TypeVar("Result")
# Turns that queries of one origin may take.
TURNS = 20
# Bodies of more bytes are read beside the thread that listens.
LARGE = 2**17


@final
class Shared:
    """One service."""

    def __init__(self, collections: Mapping[str, Served], options: Options) -> None:
        self.collections, self.options, self.limits = dict[str, Served](), options, options.limits
        self.metrics, self._worker = Metrics(), Worker(options)
        # Shards that are away hold up nobody but those who ask them.
        self._workers = {name: Worker(options) for name, each in collections.items() if each.kind == "cluster"}
        self.refits = Refits(options.limits.fit_seconds, options.limits.fits)
        self.metrics.watch(lambda: sum(each.waiting for each in (self._worker, *self._workers.values())))
        self.held, self.tracer = Held(), tracer_of_environment()
        self.shedder = LoadShedder(self.collections, self.worker_of, options.keys, self.metrics)
        self.feedback, self.reviews = dict[str, Feedback](), dict[str, Review]()
        self.watched = dict[str, Watched]()
        for each in collections.values():
            self.open(each)
        self._beside = ThreadPoolExecutor(2, "ahop-beside")
        self._writing = ThreadPoolExecutor(1, "ahop-writing")
        self._upkeep = [
            Upkeep("follow", options.follow_seconds, self._follow),
            Upkeep("watching", options.watch_seconds if options.watch else 0.0, self._watch),
            Upkeep("compaction", 0.0 if options.is_read_only else options.compact_seconds, self._compact),
        ]

    def worker_of(self, collection: str) -> Worker:
        """The thread that answers for a collection."""
        return self._workers.get(collection, self._worker)

    def open(self, collection: Served) -> Served:
        """Answer from this collection too."""
        name = collection.name
        self.feedback[name] = Feedback(collection.state, collection.snapshot.dimensions, self.limits)
        watch = self.options.watch if isinstance(collection, Collection) else 0
        self.reviews[name], self.watched[name] = Review(self.options), Watched(watch)
        self.collections[name] = collection
        return collection

    def create(self, folder: Path, name: str, patterns: Tensor, names: Sequence[str] | None, metadata: Any) -> Served:
        """A new collection, if there may be one more, with those that other processes make in the same folder."""
        with FileLock(folder / ".lock"):
            there = {*self.collections, *created(folder)}
            if len(there) >= self.limits.collections:
                raise ConflictError(f"There are {len(there)} collections already, as many as there may be.")
            return self.open(create(folder, name, patterns, names, metadata))

    def close(self) -> None:
        for each in self._upkeep:
            each.close()
        self.refits.close()
        self.tracer.close()
        for worker in (self._worker, *self._workers.values()):
            worker.close()
        for collection in self.collections.values():
            collection.close()
        self._beside.shutdown()
        self._writing.shutdown()

    def held_collection(self, name: str, request: Request, writes: bool = False) -> Collection:
        """A collection whose patterns are here."""
        return held(self.collection(name, request, writes))

    def collection(self, name: str, request: Request, writes: bool = False) -> Served:
        told = told_of(request)
        if name not in self.collections or not told.key.opens(name):
            raise RefusedError(
                HTTPStatus.NOT_FOUND, "There is no such collection.", "GET /collections lists those that there are."
            )
        told.collection = name
        if writes and request.method == "GET":
            check_rights(told.key)
        elif writes:
            self.check_writable(told.key)
        return self.collections[name]

    def check_writable(self, key: Key) -> None:
        check_rights(key)
        if self.options.is_read_only:
            hint = "Write to the store by another service, or from Python; it is seen here a second later."
            raise RefusedError(HTTPStatus.FORBIDDEN, "This service only reads, as several processes answer.", hint)

    async def admitted(self, name: str, request: Request) -> tuple[Served, bytes]:
        """The collection and the body of a request that will be recalled for; refused before any work is done on it."""
        collection = self.collection(name, request)
        body = await self.body(request)
        self.worker_of(name).check_free(collection.cost.seconds(1))
        return collection, body

    async def body(self, request: Request) -> bytes:
        return await receive_body(request, self.limits, self.held)

    async def answered(
        self,
        collection: Served,
        snapshot: BaseSnapshot,
        asked: RecallRequest,
        filter_name: str,
        rows: Passing | None,
    ) -> Recall[Tensor]:
        """Wait for the thread that recalls."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Recall[Tensor]] = loop.create_future()

        def tell(found: Recall[Tensor] | BaseException) -> None:
            loop.call_soon_threadsafe(_set, future, found)

        queries = asked.queries.to(snapshot.example)
        job = Job(
            snapshot,
            collection.cost_of(snapshot, asked.k, asked.same),
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
        worker = self.worker_of(collection.name)
        worker.check_free(job.seconds_left)
        worker.submit(job)
        try:
            await asyncio.wait({future}, timeout=self.limits.answer_seconds)
            if not future.done():
                raise UnavailableError(f"There was no answer after {self.limits.answer_seconds:g} seconds.")
            return future.result()
        finally:
            job.is_given_up = True

    async def read(self, request: Request, work: Callable[[bytes], Result]) -> Result:
        """Read the body of a request; a large one beside the thread that listens."""
        body = await self.body(request)
        return await self.maybe_beside(len(body) > LARGE, lambda: work(body))

    def bound(self, snapshot: BaseSnapshot, rows: int | None = None) -> Bound:
        """Values of a body that a collection has use for."""
        names = snapshot.columns or snapshot.dimensions
        return bound_of(self.limits, names, len(snapshot.filters), rows)

    async def maybe_beside(self, is_large: bool, work: Callable[[], Result]) -> Result:
        return await asyncio.get_running_loop().run_in_executor(self._beside, work) if is_large else work()

    async def write(self, work: Callable[[], Result]) -> Result:
        """One change at a time, beside the thread that listens."""
        return await asyncio.get_running_loop().run_in_executor(self._writing, work)

    async def refresh(self, collection: Served) -> BaseSnapshot:
        """See what others have written; reading shards anew takes long, and holds up no change."""
        if isinstance(collection, Collection):
            return await self.write(collection.refresh)
        return await self.maybe_beside(True, collection.refresh)

    def _follow(self) -> None:
        """See what others have written."""
        for each in list(self.collections.values()):
            if isinstance(each, Collection):
                self._writing.submit(each.follow).result()
            else:
                each.follow()

    def _watch(self) -> None:
        """Let the counters tell what the last queries show."""
        for name, each in list(self.collections.items()):
            watched = self.watched[name]
            if isinstance(each, Collection) and watched.is_due() and (report := watched.report(each.snapshot)):
                self.metrics.saw(name, report)

    def _compact(self) -> None:
        """Tidy up the tables that need it, one change at a time as all changes are."""
        for each in list(self.collections.values()):
            self._writing.submit(each.compact).result()


def check_rights(key: Key) -> None:
    if not key.may_write:
        raise RefusedError(HTTPStatus.FORBIDDEN, "This key may only read.", "Use a key with `may_write`.")


def _set(future: "asyncio.Future[Recall[Tensor]]", found: Recall[Tensor] | BaseException) -> None:
    if future.done():
        return
    if isinstance(found, BaseException):
        future.set_exception(found)
    else:
        future.set_result(found)
