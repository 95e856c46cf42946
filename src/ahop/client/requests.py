"""Requests to a collection of a service, and how its answers are read: the same for both clients."""

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, TypeAlias, TypeVar
from urllib.parse import quote, urlsplit

import httpx2
import numpy as np
from numpy.typing import NDArray

from ahop._core.arrays import is_tensor, to_kind_of, to_numpy
from ahop._core.checks import as_group_names, check_count
from ahop._core.json import parse_json
from ahop._core.labels import as_label, entries
from ahop._core.rows import as_matrix_of_one, check_single, read_queries
from ahop.errors import FileFormatError, InvalidTypeError, InvalidValueError, UnavailableError, UnsupportedError
from ahop.memory.explanation import Bar, Explanation
from ahop.memory.recall import Recall

# Responses after which the same request may succeed later.
LATER = (HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE)
# Bytes that a number takes in a request, at most.
MAX_BYTES_OF_NUMBER = 32


@dataclass(frozen=True)
class Request:
    method: str
    path: str
    body: Mapping[str, Any] | None = None


Result = TypeVar("Result")
# Requests go out of a verb, the objects of their answers come in, and its result is returned.
Steps: TypeAlias = Generator[Request, dict[str, Any], Result]


class Requests:
    """A collection of a service; arguments as of a `Client`."""

    def __init__(
        self,
        url: str,
        collection: str | None = None,
        *,
        key: str | None = None,
        timeout: float = 30.0,
        patterns: bool = True,
        connections: int = 8,
    ) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise InvalidValueError(f"`url` must be such as http://127.0.0.1:8000; got {url!r}.")
        self.url, self.timeout, self.patterns = url.rstrip("/"), timeout, patterns
        self.collection = collection or ""
        self._settings: dict[str, Any] = {
            "headers": {} if key is None else {"Authorization": f"Bearer {key}"},
            "timeout": httpx2.Timeout(timeout, pool=None),
            "trust_env": False,
        }
        self._pool = httpx2.Limits(max_connections=check_count("connections", connections))

    def __len__(self) -> int:
        return self.rows

    def _connect(self) -> Steps[None]:
        """Find the only collection if none was named, and read its size."""
        if not self.collection:
            found = yield Request("GET", "/collections")
            with self._reading():
                names = [str(each["name"]) for each in found["collections"]]
            if len(names) != 1:
                raise InvalidTypeError(f"`collection` must be one of {names}.")
            self.collection = names[0]
        yield from self._refresh()

    def _refresh(self) -> Steps[None]:
        """Read how many patterns there are by now."""
        facts = yield from self._inspect()
        with self._reading():
            self.rows, self.dimensions = int(facts["patterns"]), int(facts["dimensions"])
            self._limits, self._bytes = dict(facts["limits"]), dict(facts["bytes"])
            names = facts["columns"]
            self.columns: tuple[str, ...] | None = None if names is None else tuple(names)

    def _recall(
        self,
        queries: Any,
        k: int = 1,
        *,
        where: Mapping[str, object] | None = None,
        groups: Sequence[object] | None = None,
        same: Iterable[Any] | None = None,
    ) -> Steps[Recall[Any]]:
        """Recall the k stored patterns that each query most likely came from. Many queries go in several requests.

        Tensors are answered with tensors, all others with arrays.

        Args:
            where: columns and the values that they may have; `id` and `label` are columns too.
            groups: where each query comes from, if the memory was fitted with groups.
            same: which queries have their origin in common, as for a memory.

        Raises:
            UnavailableError: the service does not answer, or says to come back later.
            AhopError: what the service finds wrong with the request.
        """
        rows = self._rows(queries)
        names = None if groups is None else as_group_names(groups, len(rows))
        k = min(check_count("k", k), max(1, self.rows))
        size = self._max_queries(k)
        body: dict[str, Any] = {"k": k, "patterns": self.patterns}
        body |= {} if where is None else {"where": _filter(where)}
        if same is not None:
            body["same"] = [as_label(each) for each in entries("same", same)]
            if len(rows) > size:
                raise InvalidValueError(f"`same` takes at most {size} queries over HTTP; got {len(rows)}.")
        parts = []
        for start in range(0, max(1, len(rows)), size):
            cut = slice(start, start + size)
            of_cut = {"queries": _numbers(rows[cut])} | ({} if names is None else {"groups": names[cut]})
            parts.append((yield self._to("POST", "/recall", {**body, **of_cut})))
        with self._reading():
            count = len(rows) if same is None else len(dict.fromkeys(body["same"]))
            return self._answer(parts, count, k, queries)

    def _explain(self, query: Any, *, against: object = None, group: object = None) -> Steps[Explanation]:
        """Explain the answer to one query, as `AssociativeMemory.explain` does; small bars come as one."""
        if against is not None:
            raise UnsupportedError("Over HTTP the rival is the second answer: leave `against` out, or ask a memory.")
        row = read_queries(as_matrix_of_one(query), self.dimensions, self.columns, "query")
        check_single(len(row))
        body = {"queries": _numbers(row), "explain": True} | ({} if group is None else {"groups": [str(group)]})
        found = yield self._to("POST", "/recall", body)
        with self._reading():
            one = found["explanations"][0]
            bars = tuple(Bar(**each) for each in one["bars"])
            return Explanation(one["answer"], one["rival"], one["posterior"], one["log_odds"], bars)

    def _link(
        self,
        queries: Any,
        *,
        one_to_one: bool = True,
        unmatched: float | None = None,
        where: Mapping[str, object] | None = None,
        groups: Sequence[object] | None = None,
    ) -> Steps[dict[str, Any]]:
        """Link each query to the stored pattern that it came from, each pattern to one query at most.

        Args: as for `ahop.link`. Returns `queries` (their places), `ids` and `probability` of the links, and the
            `unmatched` queries.
        """
        rows = self._rows(queries)
        body: dict[str, Any] = {"queries": _numbers(rows), "one_to_one": one_to_one}
        body |= {} if unmatched is None else {"unmatched": unmatched}
        body |= {} if where is None else {"where": _filter(where)}
        body |= {} if groups is None else {"groups": as_group_names(groups, len(rows))}
        return (yield self._to("POST", "/link", body))

    def _inspect(self) -> Steps[dict[str, Any]]:
        """Describe the collection: patterns, model, and the limits of a request."""
        return (yield self._to("GET", ""))

    def _add(self, patterns: Any, ids: Any = None, metadata: Mapping[str, Any] | None = None) -> Steps[Any]:
        """Store more patterns in a store; returns their numbers, in the kind of the patterns."""
        body: dict[str, Any] = {"patterns": _numbers(self._rows(patterns, "patterns"))}
        body |= {} if ids is None else {"ids": to_numpy(ids).tolist()}
        body |= {} if metadata is None else {"metadata": {name: entries(name, each) for name, each in metadata.items()}}
        found = yield self._to("POST", "/add", body)
        with self._reading():
            numbers = np.array(found["ids"], dtype=np.int64)
        yield from self._refresh()
        return to_kind_of(patterns, numbers)

    def _remove(self, ids: Any) -> Steps[None]:
        """Remove patterns from a store."""
        yield self._to("POST", "/delete", {"ids": to_numpy(ids).tolist()})
        yield from self._refresh()

    def _tell(self, queries: Any, ids: Any, groups: Sequence[object] | None = None) -> Steps[int]:
        """Send feedback: the number of the row that each query came from. Returns how many pairs are kept."""
        rows = self._rows(queries)
        body: dict[str, Any] = {"queries": _numbers(rows), "ids": to_numpy(ids).tolist()}
        body |= {} if groups is None else {"groups": as_group_names(groups, len(rows))}
        found = yield self._to("POST", "/pairs", body)
        with self._reading():
            return int(found["pairs"])

    def _fit(self, queries: Any = None, similarity: str | None = None) -> Steps[dict[str, Any]]:
        """Start a fit in the background, from feedback and from queries without origins."""
        body: dict[str, Any] = {} if similarity is None else {"similarity": similarity}
        body |= {} if queries is None else {"queries": _numbers(self._rows(queries))}
        return (yield self._to("POST", "/fit", body))

    def _versions(self) -> Steps[dict[str, Any]]:
        """List the versions of the model, and the latest fits."""
        return (yield self._to("GET", "/versions"))

    def _activate(self, version: int) -> Steps[None]:
        """Answer with the model of this version from now on."""
        yield self._to("POST", f"/versions/{int(version)}/activate", {})

    def _restore(self, version: int) -> Steps[None]:
        """Restore the patterns and the model that a store had in this version."""
        yield self._to("POST", f"/versions/{int(version)}/restore", {})
        yield from self._refresh()

    def _to(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Request:
        return Request(method, f"/collections/{quote(self.collection, safe='')}{path}", body)

    def _rows(self, given: Any, name: str = "queries") -> NDArray[np.float32]:
        return read_queries(given, self.dimensions, self.columns, name)

    def _max_queries(self, k: int) -> int:
        """Queries in a request, so that neither it nor its answer is too large."""
        if k > self._limits["answers"]:
            raise InvalidValueError(f"`k` must be at most {self._limits['answers']} over HTTP; got {k}.")
        of_query = k * (self._bytes["answer"] + (self._bytes["pattern"] if self.patterns else 0))
        size = min(self._limits["queries"], self._limits["answer_bytes"] // of_query)
        size = min(size, self._limits["body_bytes"] // (MAX_BYTES_OF_NUMBER * self.dimensions))
        if size < 1:
            raise InvalidValueError(f"`k`={k} answers are too many for one message: take fewer, or `patterns=False`.")
        return int(size)

    def _answer(self, parts: Sequence[Mapping[str, Any]], count: int, k: int, queries: object) -> Recall[Any]:
        """One answer of several parts; -1, 0 and NaN where fewer than k patterns were answered."""

        def table(name: str, dtype: Any, empty: object, *shape: int) -> NDArray[Any]:
            rows = [row for part in parts for row in part[name]]
            given = len(rows[0]) if rows else 0
            found = np.full((count, k, *shape), empty, dtype=dtype)
            found[:, :given] = np.array(rows, dtype=dtype).reshape(count, given, *shape)
            return found

        unknown = None
        if "unknown" in parts[0]:
            unknown = np.array([each for part in parts for each in part["unknown"]], dtype=np.float32)
        if self.patterns:
            patterns = table("patterns", np.float32, np.nan, self.dimensions)
        else:
            patterns = np.empty((count, k, 0), np.float32)
        return Recall(
            to_kind_of(queries, table("ids", np.int64, -1)),
            to_kind_of(queries, table("posterior", np.float32, 0)),
            to_kind_of(queries, patterns),
            None if unknown is None else to_kind_of(queries, unknown),
            table("labels", object, None) if "labels" in parts[0] else None,
            all(part.get("checked") is True for part in parts),
        )

    def _read(self, response: httpx2.Response) -> dict[str, Any]:
        """The object of an answer, or the error that it tells of."""
        try:
            found = parse_json(response.content)
        except ValueError as error:
            raise self._unavailable(error) from error
        if not isinstance(found, dict):
            raise FileFormatError(f"`{self.url}` does not answer as a service of ahop does.")
        if not response.is_error:
            return found
        words = " ".join(str(found[each]) for each in ("error", "hint") if each in found)
        if response.status_code in LATER:
            raise UnavailableError(f"`{self.url}` says: {words}")
        raise InvalidValueError(f"`{self.url}` refuses this: {words}")

    def _unavailable(self, error: Exception) -> UnavailableError:
        return UnavailableError(f"`{self.url}` does not answer: {error!r}. Is the service running?")

    @contextmanager
    def _reading(self) -> Iterator[None]:
        try:
            yield
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise FileFormatError(f"`{self.url}` does not answer as this release of ahop does: {error!r}") from error


def _numbers(rows: NDArray[np.float32]) -> list[list[float | None]]:
    """Rows for JSON, null where nothing was observed."""
    return [[None if each != each else each for each in row] for row in rows.tolist()]


def _filter(where: Mapping[str, object]) -> dict[str, object]:
    """Values of a filter for JSON."""
    if not isinstance(where, Mapping):
        raise InvalidTypeError(
            f"`where` must name columns and the values that they may have; got {type(where).__name__}. For some rows "
            "pass `{'id': ids}`."
        )
    found: dict[str, object] = {}
    for name, value in where.items():
        several = isinstance(value, list | tuple | set | frozenset | np.ndarray) or is_tensor(value)
        found[str(name)] = [_entry(each) for each in entries("where", value)] if several else _entry(value)  # type: ignore[arg-type]
    return found


def _entry(value: object) -> object:
    return value.item() if isinstance(value, np.generic) or is_tensor(value) else value
