"""Routes that change something."""

import re
from http import HTTPStatus
from typing import Any, final

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
        patterns, metadata = await shared.read(request, self._read_created)
        if name in shared.collections:
            raise ConflictError(f"There is a collection {name!r} already. Choose another name, or add patterns to it.")
        made = await shared.write(lambda: shared.create(folder, name, patterns, metadata))
        return json_response({"name": name, "version": made.snapshot.version}, HTTPStatus.CREATED)

    async def restore(self, name: str, version: str, request: Request) -> Response:
        """Go back to what a store was in this version, patterns and model."""
        collection = self.shared.collection(name, request, writes=True)
        number = asking.read_version(version)
        snapshot = await self.shared.write(lambda: collection.restore(number))
        return json_response({"version": snapshot.version, "patterns": len(snapshot)})

    async def add(self, name: str, request: Request) -> Response:
        """Store more patterns."""
        collection = self.shared.collection(name, request, writes=True)
        patterns, ids, metadata = await self.shared.read(
            request, lambda body: self._read_added(body, collection.snapshot)
        )
        snapshot, numbers = await self.shared.write(lambda: collection.add(patterns, ids, metadata))
        return json_response({"ids": numbers, "version": snapshot.version}, HTTPStatus.CREATED)

    async def delete(self, name: str, request: Request) -> Response:
        """Forget patterns."""
        collection = self.shared.collection(name, request, writes=True)
        most = asking.most_values(self.shared.limits, 0, 0, asking.MOST_IDS)
        asked = await self.shared.read(request, lambda body: asking.read_json(body, asking.DELETE, most))
        ids = asking.read_ids(asked.get("ids"))
        snapshot = await self.shared.write(lambda: collection.remove(ids))
        return json_response({"version": snapshot.version})

    async def pairs(self, name: str, request: Request) -> Response:
        """Feedback: which row each of these queries came from. It is kept for the next fit."""
        collection = self.shared.collection(name, request, writes=True)
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
        collection = self.shared.collection(name, request, writes=True)
        queries, similarity = await self.shared.read(request, lambda body: self._read_fit(body, collection.snapshot))
        copies, ids, groups, patterns = self.shared.feedback[name].pairs()
        job = await self.shared.write(
            lambda: self.shared.refits.start(collection, (copies, ids, groups), queries, similarity, patterns)
        )
        return json_response(job.facts(), HTTPStatus.ACCEPTED)

    async def activate(self, name: str, version: str, request: Request) -> Response:
        """Answer with the model of this version from now on; the patterns stay as they are."""
        collection = self.shared.collection(name, request, writes=True)
        number = asking.read_version(version)
        snapshot = await self.shared.write(lambda: collection.activate(number))
        return json_response({"version": snapshot.version})

    async def refresh(self, name: str, request: Request) -> Response:
        """See what others have written to the store."""
        collection = self.shared.collection(name, request, writes=True)
        snapshot = await self.shared.write(collection.refresh)
        return json_response({"version": snapshot.version, "patterns": len(snapshot)})

    def _read_created(self, body: bytes) -> tuple[Tensor, dict[str, list[Any]]]:
        asked = asking.read_json(body, asking.CREATE, self.shared.limits.body_values)
        given = asked.get("patterns")
        first = given[0] if isinstance(given, list) and given else None
        if not isinstance(first, list) or not first:
            raise InvalidTypeError("`patterns` must be a list of rows, each a list of numbers; at least one of each.")
        patterns = asking.read_rows("patterns", given, len(first), self.shared.limits.queries)
        return patterns, asking.read_metadata(asked.get("metadata"))

    def _read_added(self, body: bytes, snapshot: Snapshot) -> tuple[Tensor, list[int] | None, dict[str, list[Any]]]:
        asked = asking.read_json(body, asking.ADD, self.shared.most_values(snapshot))
        patterns = asking.read_rows("patterns", asked.get("patterns"), snapshot.dimensions, self.shared.limits.queries)
        ids = None if asked.get("ids") is None else asking.read_ids(asked["ids"], len(patterns))
        return patterns, ids, asking.read_metadata(asked.get("metadata"))

    def _read_pairs(self, body: bytes, snapshot: Snapshot) -> tuple[Tensor, list[int], list[str] | None]:
        asked = asking.read_json(body, asking.PAIRS, self.shared.most_values(snapshot))
        queries = asking.read_rows("queries", asked.get("queries"), snapshot.dimensions, self.shared.limits.queries)
        ids = asking.read_ids(asked.get("ids"), len(queries))
        return queries, ids, asking.read_groups(asked.get("groups"), len(queries))

    def _read_fit(self, body: bytes, snapshot: Snapshot) -> tuple[Tensor | None, str | None]:
        most = self.shared.limits.pairs
        asked = asking.read_json(body or b"{}", asking.FIT, self.shared.most_values(snapshot, most))
        queries, similarity = None, asked.get("similarity")
        if asked.get("queries") is not None:
            queries = asking.read_rows("queries", asked["queries"], snapshot.dimensions, most)
        if similarity is not None and not isinstance(similarity, str):
            raise InvalidTypeError(f"`similarity` must be a word; got {asking.kind_of(similarity)}.")
        return queries, similarity
