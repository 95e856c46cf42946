"""Routes that change nothing."""

from http import HTTPStatus
from typing import final

from fastapi import Request
from starlette.responses import Response
from torch import Tensor

from ahop.errors import InvalidValueError
from ahop.memory.recall import Recall
from ahop.service import request as asking
from ahop.service.collections.batching import BusyError
from ahop.service.collections.sharded import Served, held, refusal_of_shards
from ahop.service.collections.snapshot import BaseSnapshot, Passing, Snapshot
from ahop.service.collections.watched import report_words
from ahop.service.http.answers import RefusedError, json_response, link_words, recall_response
from ahop.service.http.gate import told_of
from ahop.service.http.metrics import CONTENT_TYPE
from ahop.service.http.shared import LARGE, Shared
from ahop.service.http.sizes import bytes_of, check_size, link_bytes, recall_bytes
from ahop.service.request import LinkBody, RecallBody, RecallRequest

# Answers of more numbers are written beside the thread that listens.
LARGE_ANSWER = 2**13
# Stored patterns that are considered for each query that is linked.
CANDIDATES = 64


@final
class Reading:
    """Health, collections, recall and watching."""

    def __init__(self, shared: Shared) -> None:
        self.shared, self._explaining = shared, 0

    async def livez(self) -> Response:
        """Liveness: the process runs."""
        return json_response({"status": "alive"})

    async def readyz(self) -> Response:
        """Readiness: it takes requests; not any more once it was told to end."""
        if self.shared.held.is_draining:
            raise RefusedError(HTTPStatus.SERVICE_UNAVAILABLE, "The service is ending.", "Ask another one.")
        return json_response({"status": "ready"})

    async def listed(self, request: Request) -> Response:
        """The collections that the key opens."""
        key = told_of(request).key
        found = [
            {
                "name": name,
                "kind": each.kind,
                "version": each.snapshot.version,
                "dimensions": each.snapshot.dimensions,
            }
            for name, each in list(self.shared.collections.items())  # another thread may add one meanwhile
            if key.opens(name)
        ]
        return json_response({"collections": found})

    async def inspected(self, name: str, request: Request) -> Response:
        """Facts about a collection: its patterns, the report of its fit, and the limits of a request."""
        collection = self.shared.collection(name, request)
        snapshot, key = collection.snapshot, told_of(request).key
        model, limits = snapshot.model, self.shared.limits
        rows = snapshot.rows(None, key.where)[1]
        memory, index = (snapshot.memory, snapshot.index) if isinstance(snapshot, Snapshot) else (None, None)
        words = {
            "name": name,
            "kind": collection.kind,
            "version": snapshot.version,
            "patterns": snapshot.count(rows),
            "dimensions": snapshot.dimensions,
            "columns": None if snapshot.columns is None else list(snapshot.columns),
            "has_labels": memory is not None and memory.labels is not None,
            "metadata": dict(snapshot.filters),
            "groups": model.group_names[:1000],
            "tells_unknown": model.detector is not None,
            "index": None if index is None else index.kind,
            "checked": model.is_checked,
            "report": None if model.report is None else str(model.report),
            "pairs": len(self.shared.feedback[name]),
            "bytes": bytes_of(snapshot),
            "limits": {
                each: getattr(limits, each)
                for each in ("body_bytes", "queries", "answers", "answer_bytes", "explained")
            },
        }
        return json_response(words)

    async def recall(self, name: str, request: Request) -> Response:
        """The k stored patterns that each query most likely came from."""
        collection, body = await self.shared.admitted(name, request)
        snapshot = collection.snapshot
        asked = await self.shared.maybe_beside(len(body) > LARGE, lambda: self._read_recall(body, snapshot))
        found, rows = await self.found(collection, snapshot, asked, request, recall_bytes(asked, snapshot))
        size = found.indices.numel() * (snapshot.dimensions if asked.patterns else 1)

        def written() -> Response:
            return recall_response(asked, snapshot, found, rows)

        if not asked.explain:
            return await self.shared.maybe_beside(size > LARGE_ANSWER, written)
        if self._explaining >= self.shared.limits.explaining:
            raise BusyError(1)
        self._explaining += 1
        try:
            return await self.shared.maybe_beside(True, written)
        finally:
            self._explaining -= 1

    async def link(self, name: str, request: Request) -> Response:
        """Link each query to the stored pattern that it came from, each pattern to one query at most."""
        collection, body = await self.shared.admitted(name, request)
        snapshot = held(collection).snapshot
        read, asked = await self.shared.maybe_beside(len(body) > LARGE, lambda: self._read_link(body, snapshot))
        found, rows = await self.found(collection, snapshot, asked, request, link_bytes(asked, snapshot))
        words = await self.shared.maybe_beside(True, lambda: link_words(snapshot, found, rows, read))
        return json_response(words)

    async def found(
        self, collection: Served, snapshot: BaseSnapshot, asked: RecallRequest, request: Request, size: int
    ) -> tuple[Recall[Tensor], Passing | None]:
        """Recall in at most `size` bytes; returns the answer and the rows that it is among, None for all."""
        told, name = told_of(request), collection.name
        check_size(size, len(asked.queries), self.shared.limits.answer_bytes)
        self.shared.held.reserve(told, size, self.shared.limits)
        told.queries = len(asked.queries)
        filter_name, rows = snapshot.rows(asked.where, told.key.where)
        found = await self.shared.answered(collection, snapshot, asked, filter_name, rows)
        unknown = None if found.unknown is None else float(found.unknown.sum())
        self.shared.metrics.answered(name, len(found.indices), float(found.confidence.sum()), unknown)
        if asked.same is None:
            if self.shared.reviews[name].is_on:
                numbers = snapshot.numbers_of(found.indices).tolist()
                self.shared.reviews[name].look(told.id, snapshot.version, asked.queries, numbers, found)
            self.shared.watched[name].look(asked.queries, asked.groups)
        return found, rows

    async def versions(self, name: str, request: Request) -> Response:
        """The versions whose model can be answered from again, and the fits of late."""
        collection = self.shared.held_collection(name, request, writes=True)
        found = await self.shared.write(collection.versions)
        words = [
            {"version": each.number, "current": each.is_current} | ({} if each.when is None else {"when": each.when})
            for each in found
        ]
        return json_response({"versions": words, "fits": [job.facts() for job in self.shared.refits.of(name)]})

    async def review(self, name: str, request: Request) -> Response:
        """Answers of late that a person should look at, if the service was started to keep them."""
        self.shared.collection(name, request, writes=True)
        kept = self.shared.reviews[name]
        if not kept.is_on:
            raise RefusedError(
                HTTPStatus.CONFLICT,
                "No answers are kept for review: that would keep queries too.",
                "Start the service with `--review 100` to keep the last hundred in memory.",
            )
        return json_response({"review": kept.entries(100, self.shared.limits.answer_bytes)})

    async def watch(self, name: str, request: Request) -> Response:
        """Watch the last queries: the share of right answers, and the dimensions that have moved since the fit."""
        collection = self.shared.held_collection(name, request, writes=True)
        watched = self.shared.watched[name]
        if not watched.is_on:
            raise RefusedError(
                HTTPStatus.CONFLICT,
                "No queries are kept, so there is nothing to watch.",
                "Start the service with `--watch 500` to keep the last five hundred in memory.",
            )
        if watched.is_looking:
            raise BusyError(1)
        report = await self.shared.maybe_beside(True, lambda: watched.report(collection.snapshot))
        if report is None:
            raise RefusedError(HTTPStatus.CONFLICT, "There were too few queries so far.", "Ask again later.")
        return json_response(report_words(report))

    async def measured(self, request: Request) -> Response:
        """Counters for Prometheus."""
        key = told_of(request).key
        if key.collections is not None or key.where is not None:
            raise RefusedError(HTTPStatus.FORBIDDEN, "This key is for some collections; counters are of all.")
        for name, each in list(self.shared.collections.items()):
            snapshot = each.snapshot
            facts = await self.shared.write(each.facts)
            self.shared.metrics.state(name, snapshot.version, len(snapshot), len(self.shared.feedback[name]), facts)
        return Response(self.shared.metrics.text(), media_type=CONTENT_TYPE)

    def _read_link(self, body: bytes, snapshot: Snapshot) -> tuple[LinkBody, RecallRequest]:
        read = asking.read_body(LinkBody, body, self.shared.bound(snapshot))
        of_recall = RecallBody(queries=read.queries, k=CANDIDATES, where=read.where, groups=read.groups)
        return read, asking.recall_request(of_recall, snapshot.dimensions, self.shared.limits, snapshot.columns)

    def _read_recall(self, body: bytes, snapshot: BaseSnapshot) -> RecallRequest:
        read = asking.read_body(RecallBody, body, self.shared.bound(snapshot))
        asked = asking.recall_request(read, snapshot.dimensions, self.shared.limits, snapshot.columns)
        if not isinstance(snapshot, Snapshot):
            if asked.explain or asked.columns or asked.same:
                raise refusal_of_shards("`explain`, `columns` and `same`")
            return asked
        for each in asked.columns or ():
            if each not in snapshot.metadata.columns:
                raise InvalidValueError(f"`columns` may name {sorted(snapshot.metadata.columns)}; got {each[:100]!r}.")
        return asked
