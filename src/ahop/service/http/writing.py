"""Routes that change something."""

import re
from collections.abc import Sequence
from http import HTTPStatus
from typing import final

from fastapi import Request
from starlette.responses import Response
from torch import Tensor

from ahop.errors import ConflictError, InvalidTypeError, InvalidValueError
from ahop.service import request as asking
from ahop.service.collections.collection import NAME
from ahop.service.collections.snapshot import Snapshot
from ahop.service.http.answers import RefusedError, json_response
from ahop.service.http.gate import told_of
from ahop.service.http.shared import Shared
from ahop.service.request import Bound, Metadata, Row


@final
class Writing:
    """Patterns, feedback, models."""

    def __init__(self, shared: Shared) -> None:
        self.shared = shared

    async def create(self, name: str, request: Request) -> Response:
        """A new collection with these patterns: a store in the folder that the service was started with."""
        shared, key, folder = self.shared, told_of(request).key, self.shared.options.create_in
        shared.check_writable(key)
        if folder is None:
            words = "Collections cannot be created here."
            raise RefusedError(HTTPStatus.FORBIDDEN, words, "Start the service with `--create-in FOLDER`.")
        if not key.opens(name):
            raise RefusedError(HTTPStatus.FORBIDDEN, "This key is for other collections.")
        if not re.fullmatch(NAME, name) or name.startswith("."):
            raise InvalidValueError("The name must be of letters, digits, `_`, `.` and `-`, and not begin with a dot.")
        patterns, names, metadata = await shared.read(request, self._read_created)
        if name in shared.collections:
            raise ConflictError(f"There is a collection {name!r} already. Choose another name, or add patterns to it.")
        made = await shared.write(lambda: shared.create(folder, name, patterns, names, metadata))
        return json_response({"name": name, "version": made.snapshot.version}, HTTPStatus.CREATED)

    async def restore(self, name: str, version: str, request: Request) -> Response:
        """Go back to what a store was in this version, patterns and model."""
        collection = self.shared.held_collection(name, request, writes=True)
        number = asking.read_version(version)
        snapshot = await self.shared.write(lambda: collection.restore(number))
        return json_response({"version": snapshot.version, "patterns": len(snapshot)})

    async def add(self, name: str, request: Request) -> Response:
        """Store more patterns."""
        collection = self.shared.held_collection(name, request, writes=True)
        patterns, ids, metadata = await self.shared.read(
            request, lambda body: self._read_added(body, collection.snapshot)
        )
        snapshot, numbers = await self.shared.write(lambda: collection.add(patterns, ids, metadata))
        return json_response({"ids": numbers, "version": snapshot.version}, HTTPStatus.CREATED)

    async def delete(self, name: str, request: Request) -> Response:
        """Forget patterns."""
        collection = self.shared.held_collection(name, request, writes=True)
        bound = asking.bound_of(self.shared.limits, 0, 0, asking.MOST_IDS)
        asked = await self.shared.read(request, lambda body: asking.read_body(asking.DeleteBody, body, bound))
        asking.check_ids(asked.ids)
        snapshot = await self.shared.write(lambda: collection.remove(asked.ids))
        return json_response({"version": snapshot.version})

    async def pairs(self, name: str, request: Request) -> Response:
        """Feedback: which row each of these queries came from. It is kept for the next fit."""
        collection = self.shared.held_collection(name, request, writes=True)
        snapshot = collection.snapshot
        queries, ids, groups = await self.shared.read(request, lambda body: self._read_pairs(body, snapshot))
        rows = {number: snapshot.row_of(number) for number in ids}
        strange = [number for number, row in rows.items() if row is None]
        if strange:
            raise InvalidValueError(f"`ids` must be numbers of stored rows; {strange[0]} is none of them.")
        digests = {number: snapshot.digest_of(row) for number, row in rows.items() if row is not None}
        patterns = [digests[number] for number in ids]
        await self.shared.write(lambda: self.shared.feedback[name].add(queries, ids, groups, patterns))
        return json_response({"pairs": len(self.shared.feedback[name])}, HTTPStatus.CREATED)

    async def fit(self, name: str, request: Request) -> Response:
        """Learn anew, in the background, from the pairs that are kept and from queries whose origins nobody knows."""
        collection = self.shared.held_collection(name, request, writes=True)
        queries, similarity = await self.shared.read(request, lambda body: self._read_fit(body, collection.snapshot))
        copies, ids, groups, patterns = self.shared.feedback[name].pairs()
        job = await self.shared.write(
            lambda: self.shared.refits.start(collection, (copies, ids, groups), queries, similarity, patterns)
        )
        return json_response(job.facts(), HTTPStatus.ACCEPTED)

    async def activate(self, name: str, version: str, request: Request) -> Response:
        """Answer with the model of this version from now on; the patterns stay as they are."""
        collection = self.shared.held_collection(name, request, writes=True)
        number = asking.read_version(version)
        snapshot = await self.shared.write(lambda: collection.activate(number))
        return json_response({"version": snapshot.version})

    async def refresh(self, name: str, request: Request) -> Response:
        """See what others have written to the store."""
        collection = self.shared.collection(name, request, writes=True)
        snapshot = await self.shared.refresh(collection)
        return json_response({"version": snapshot.version, "patterns": len(snapshot)})

    def _read_created(self, body: bytes) -> tuple[Tensor, Sequence[str] | None, Metadata]:
        limits = self.shared.limits
        asked = asking.read_body(asking.CreateBody, body, Bound(limits.body_values))
        first = asked.patterns[0] if asked.patterns else None
        if not first:
            raise InvalidTypeError("`patterns` must be a list of rows; at least one, of at least one number.")
        names = list(first) if isinstance(first, dict) else None
        return asking.read_rows("patterns", asked.patterns, len(first), limits.queries, names), names, asked.metadata

    def _read_added(self, body: bytes, snapshot: Snapshot) -> tuple[Tensor, list[int] | None, Metadata]:
        asked = asking.read_body(asking.AddBody, body, self.shared.bound(snapshot))
        patterns = self._rows("patterns", asked.patterns, snapshot)
        if asked.ids is not None:
            asking.check_ids(asked.ids, len(patterns))
        return patterns, asked.ids, asked.metadata

    def _read_pairs(self, body: bytes, snapshot: Snapshot) -> tuple[Tensor, list[int], list[str] | None]:
        asked = asking.read_body(asking.PairsBody, body, self.shared.bound(snapshot))
        queries = self._rows("queries", asked.queries, snapshot)
        asking.check_ids(asked.ids, len(queries))
        return queries, asked.ids, asking.read_groups(asked.groups, len(queries))

    def _read_fit(self, body: bytes, snapshot: Snapshot) -> tuple[Tensor | None, str | None]:
        most = self.shared.limits.pairs
        asked = asking.read_body(asking.FitBody, body or b"{}", self.shared.bound(snapshot, most))
        queries = None if asked.queries is None else self._rows("queries", asked.queries, snapshot, most)
        return queries, asked.similarity

    def _rows(self, name: str, rows: list[Row], snapshot: Snapshot, most: int | None = None) -> Tensor:
        limit = self.shared.limits.queries if most is None else most
        return asking.read_rows(name, rows, snapshot.dimensions, limit, snapshot.columns)
