"""Routes that change something."""

import re
from http import HTTPStatus
from typing import final

from fastapi import Request
from starlette.responses import Response

from ahop.errors import ConflictError, InvalidTypeError, InvalidValueError
from ahop.service import request as asking
from ahop.service.answers import RefusedError, json_response
from ahop.service.collection import NAME, create
from ahop.service.gate import told_of
from ahop.service.shared import Shared


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
        if len(shared.collections) >= shared.limits.collections:
            raise ConflictError(f"There are {len(shared.collections)} collections already, as many as there may be.")
        asked = asking.read_json(await shared.body(request), asking.CREATE)
        given = asked.get("patterns")
        first = given[0] if isinstance(given, list) and given else None
        if not isinstance(first, list) or not first:
            raise InvalidTypeError("`patterns` must be a list of rows, each a list of numbers; at least one of each.")
        patterns = asking.read_rows("patterns", given, len(first), shared.limits.queries)
        metadata = asking.read_metadata(asked.get("metadata"))
        if name in shared.collections:
            raise ConflictError(f"There is a collection {name!r} already. Choose another name, or add patterns to it.")
        made = await shared.write(lambda: shared.open(create(folder, name, patterns, metadata)))
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
        asked = asking.read_json(await self.shared.body(request), asking.ADD)
        patterns = asking.read_rows(
            "patterns", asked.get("patterns"), collection.snapshot.dimensions, self.shared.limits.queries
        )
        ids = None if asked.get("ids") is None else asking.read_ids(asked["ids"], len(patterns))
        metadata = asking.read_metadata(asked.get("metadata"))
        snapshot, numbers = await self.shared.write(lambda: collection.add(patterns, ids, metadata))
        return json_response({"ids": numbers, "version": snapshot.version}, HTTPStatus.CREATED)

    async def delete(self, name: str, request: Request) -> Response:
        """Forget patterns."""
        collection = self.shared.collection(name, request, writes=True)
        ids = asking.read_ids(asking.read_json(await self.shared.body(request), asking.DELETE).get("ids"))
        snapshot = await self.shared.write(lambda: collection.remove(ids))
        return json_response({"version": snapshot.version})

    async def pairs(self, name: str, request: Request) -> Response:
        """Feedback: which row each of these queries came from. It is kept for the next fit."""
        collection = self.shared.collection(name, request, writes=True)
        asked, snapshot = asking.read_json(await self.shared.body(request), asking.PAIRS), collection.snapshot
        queries = asking.read_rows("queries", asked.get("queries"), snapshot.dimensions, self.shared.limits.queries)
        ids = asking.read_ids(asked.get("ids"), len(queries))
        groups = asking.read_groups(asked.get("groups"), len(queries))
        strange = [number for number in ids if snapshot.row_of(number) is None]
        if strange:
            raise InvalidValueError(f"`ids` must be numbers of stored rows; {strange[0]} is none of them.")
        await self.shared.write(lambda: self.shared.feedback[name].add(queries, ids, groups))
        return json_response({"pairs": len(self.shared.feedback[name])}, HTTPStatus.CREATED)

    async def fit(self, name: str, request: Request) -> Response:
        """Learn anew, in the background, from the pairs that are kept and from queries whose origins nobody knows."""
        collection = self.shared.collection(name, request, writes=True)
        asked = asking.read_json(await self.shared.body(request) or b"{}", asking.FIT)
        queries, similarity = None, asked.get("similarity")
        if asked.get("queries") is not None:
            most = self.shared.limits.pairs
            queries = asking.read_rows("queries", asked["queries"], collection.snapshot.dimensions, most)
        if similarity is not None and not isinstance(similarity, str):
            raise InvalidTypeError(f"`similarity` must be a word; got {asking.kind_of(similarity)}.")
        pairs = self.shared.feedback[name].pairs()
        job = await self.shared.write(lambda: self.shared.refits.start(collection, pairs, queries, similarity))
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
