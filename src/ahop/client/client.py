"""A client of the service: it recalls as a memory does."""

import json
import threading
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any, final, overload
from urllib.parse import quote, urlsplit
from weakref import WeakSet

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import pad

from ahop._core.checks import as_group_names, check_count
from ahop._core.inputs import as_queries, as_query
from ahop._core.json import parse_json
from ahop._core.labels import as_label, entries
from ahop._core.typing import Array, Entries, NotTensor, Queries, RowsLike
from ahop.errors import FileFormatError, InvalidTypeError, InvalidValueError, UnavailableError, UnsupportedError
from ahop.memory.explanation import Bar, Explanation
from ahop.memory.recall import Recall, in_kind_of, joined

LATER = (HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE)


@final
class Client:
    """A collection of a service, on this machine or another. Several threads may ask.

    Args:
        url: of the service, such as `http://127.0.0.1:8000`.
        collection: its name; not needed if there is but one.
        key: the secret, if the service asks for one.
        timeout: seconds to wait for an answer.
        patterns: answer the stored patterns too. Without them answers are much smaller, and `Recall.patterns` is empty.
    """

    def __init__(
        self,
        url: str,
        collection: str | None = None,
        *,
        key: str | None = None,
        timeout: float = 30.0,
        patterns: bool = True,
    ) -> None:
        self._made: WeakSet[HTTPConnection] = WeakSet()
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise InvalidValueError(f"`url` must be such as http://127.0.0.1:8000; got {url!r}.")
        self.url, self.timeout, self.patterns = url.rstrip("/"), timeout, patterns
        self._parts, self._open = parts, threading.local()
        self._headers = {"Content-Type": "application/json"} | (
            {} if key is None else {"Authorization": f"Bearer {key}"}
        )
        self.collection = collection or self._only_one()
        self.refresh()

    def __len__(self) -> int:
        return self.rows

    def refresh(self) -> None:
        """See how many patterns there are by now."""
        facts = self.inspect()
        try:
            self.rows, self.dimensions = int(facts["patterns"]), int(facts["dimensions"])
            self._limits, self._bytes = dict(facts["limits"]), dict(facts["bytes"])
            names = facts["names"]
        except (KeyError, TypeError, ValueError) as error:
            raise self._strange(error) from error
        self.names: tuple[str, ...] | None = None if names is None else tuple(names)

    @overload
    def recall(
        self,
        queries: Tensor,
        k: int = 1,
        *,
        where: Mapping[str, object] | None = None,
        groups: Sequence[object] | None = None,
        same: Entries | None = None,
    ) -> Recall[Tensor]: ...
    @overload
    def recall(
        self,
        queries: NotTensor,
        k: int = 1,
        *,
        where: Mapping[str, object] | None = None,
        groups: Sequence[object] | None = None,
        same: Entries | None = None,
    ) -> Recall[NDArray[Any]]: ...
    def recall(
        self,
        queries: RowsLike,
        k: int = 1,
        *,
        where: Mapping[str, object] | None = None,
        groups: Sequence[object] | None = None,
        same: Entries | None = None,
    ) -> Recall[Any]:
        """The k stored patterns that each query most likely came from. Many queries go in several requests.

        Args:
            where: columns and the values that they may have; `id` and `label` are columns too.
            groups: where each query comes from, if the memory was fitted with groups.
            same: which queries have their origin in common, as for a memory.

        Raises:
            UnavailableError: the service does not answer, or says to come back later.
            AhopError: what the service finds wrong with the request.
        """
        checked = as_queries(queries, torch.empty(0, self.dimensions), dimensions=self.names).cpu()
        names = None if groups is None else as_group_names(groups, len(checked))
        k = min(check_count("k", k), max(1, self.rows))
        body: dict[str, Any] = {"k": k, "patterns": self.patterns}
        body |= {} if where is None else {"where": _plain(where)}
        size = self._queries_at_a_time(k)
        if same is not None:
            body["same"] = [as_label(each) for each in entries("same", same)]
            if len(checked) > size:
                raise InvalidValueError(f"`same` takes at most {size} queries over HTTP; got {len(checked)}.")
        cuts = [slice(start, start + size) for start in range(0, len(checked), size)] or [slice(0, 0)]
        parts = []
        for cut in cuts:
            of_cut = {} if names is None else {"groups": names[cut]}
            parts.append(self._recall({**body, **of_cut}, checked[cut], k))
        return in_kind_of(queries, joined(parts))

    def explain(self, query: RowsLike | Entries, *, against: object = None, group: object = None) -> Explanation:
        """Why this query is answered as it is, as `AssociativeMemory.explain` says; small bars come as one."""
        if against is not None:
            raise UnsupportedError("Over HTTP the rival is the second answer: leave `against` out, or ask a memory.")
        asked = as_query(query, torch.empty(0, self.dimensions), self.names)
        body = {"queries": _rows(asked), "explain": True} | ({} if group is None else {"groups": [str(group)]})
        try:
            found = self._ask("POST", "/recall", body)["explanations"][0]
            bars = tuple(Bar(**each) for each in found["bars"])
            return Explanation(found["answer"], found["rival"], found["posterior"], found["log_odds"], bars)
        except (KeyError, TypeError, IndexError) as error:
            raise self._strange(error) from error

    def link(
        self,
        queries: RowsLike,
        *,
        one_to_one: bool = True,
        unmatched: float | None = None,
        where: Mapping[str, object] | None = None,
        groups: Sequence[object] | None = None,
    ) -> dict[str, Any]:
        """Which stored pattern each query came from, each pattern being the origin of one query at most.

        Args: as for `ahop.link`. Returns `queries` (their places), `ids` and `probability` of the links, and the
            `unmatched` queries.
        """
        rows = as_queries(queries, torch.empty(0, self.dimensions), dimensions=self.names)
        body: dict[str, Any] = {"queries": _rows(rows), "one_to_one": one_to_one}
        body |= {} if unmatched is None else {"unmatched": unmatched}
        body |= {} if where is None else {"where": _plain(where)}
        body |= {} if groups is None else {"groups": as_group_names(groups, len(rows))}
        return self._ask("POST", "/link", body)

    def inspect(self) -> dict[str, Any]:
        """What the collection holds, what was learned, and what a request may cost."""
        return self._ask("GET", "", None)

    def add(self, patterns: RowsLike, ids: Array | None = None, metadata: Mapping[str, Any] | None = None) -> Tensor:
        """Store more patterns in a store; returns their numbers."""
        rows = as_queries(patterns, torch.empty(0, self.dimensions), "patterns", self.names)
        body: dict[str, Any] = {"patterns": _rows(rows)}
        body |= {} if ids is None else {"ids": torch.as_tensor(ids).tolist()}
        body |= {} if metadata is None else {"metadata": {name: entries(name, each) for name, each in metadata.items()}}
        found = torch.tensor(self._ask("POST", "/add", body)["ids"], dtype=torch.long)
        self.refresh()
        return found

    def remove(self, ids: Array) -> None:
        """Forget patterns of a store."""
        self._ask("POST", "/delete", {"ids": torch.as_tensor(ids).tolist()})
        self.refresh()

    def tell(self, queries: RowsLike, ids: Array, groups: Sequence[object] | None = None) -> int:
        """Feedback: the number of the row that each query came from. Returns how many pairs are kept."""
        rows = as_queries(queries, torch.empty(0, self.dimensions), dimensions=self.names)
        body: dict[str, Any] = {"queries": _rows(rows), "ids": torch.as_tensor(ids).tolist()}
        body |= {} if groups is None else {"groups": as_group_names(groups, len(rows))}
        return int(self._ask("POST", "/pairs", body)["pairs"])

    def fit(self, queries: RowsLike | None = None, similarity: str | None = None) -> dict[str, Any]:
        """Let the service learn anew, in the background, from feedback and from queries without origins."""
        body: dict[str, Any] = {} if similarity is None else {"similarity": similarity}
        if queries is not None:
            body["queries"] = _rows(as_queries(queries, torch.empty(0, self.dimensions), dimensions=self.names))
        return self._ask("POST", "/fit", body)

    def versions(self) -> dict[str, Any]:
        """The versions of the model, and the fits of late."""
        return self._ask("GET", "/versions", None)

    def activate(self, version: int) -> None:
        """Answer with the model of this version from now on."""
        self._ask("POST", f"/versions/{int(version)}/activate", {})

    def restore(self, version: int) -> None:
        """Go back to what a store was in this version, patterns and model."""
        self._ask("POST", f"/versions/{int(version)}/restore", {})
        self.refresh()

    def close(self) -> None:
        """Close the connections of all threads; who asks again opens them anew."""
        for made in self._made:
            made.close()

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()

    def _queries_at_a_time(self, k: int) -> int:
        if k > self._limits["answers"]:
            raise InvalidValueError(f"`k` must be at most {self._limits['answers']} over HTTP; got {k}.")
        of_query = k * (self._bytes["answer"] + (self._bytes["pattern"] if self.patterns else 0))
        size = min(self._limits["queries"], self._limits["answer_bytes"] // of_query)
        size = min(size, self._limits["body_bytes"] // (32 * self.dimensions))
        if size < 1:
            raise InvalidValueError(f"`k`={k} answers are too many for one message: take fewer, or `patterns=False`.")
        return int(size)

    def _recall(self, body: Mapping[str, Any], queries: Queries, k: int) -> Recall[Tensor]:
        found = self._ask("POST", "/recall", {**body, "queries": _rows(queries)})
        try:
            count = len(queries) if "same" not in body else len(dict.fromkeys(body["same"]))
            given = len(found["ids"][0]) if count else k
            short = k - given
            indices = torch.tensor(found["ids"], dtype=torch.long).reshape(count, given)
            posterior = torch.tensor(found["posterior"]).reshape(count, given)
            width = self.dimensions if self.patterns else 0
            numbers = np.array(found.get("patterns", []), dtype=np.float32).reshape(count, given, width)
            unknown = torch.tensor(found["unknown"]) if "unknown" in found else None
            labels = None
            if "labels" in found:
                labels = np.full((count, k), None, dtype=object)
                for row, some in enumerate(found["labels"]):
                    labels[row, :given] = some
        except (KeyError, TypeError, ValueError, RuntimeError, IndexError) as error:
            raise self._strange(error) from error
        patterns = pad(torch.from_numpy(numbers), (0, 0, 0, short), value=torch.nan)
        rows, checked = pad(indices, (0, short), value=-1), found.get("checked") is True
        return Recall(rows, pad(posterior, (0, short)), patterns, unknown, labels, checked)

    def _only_one(self) -> str:
        self.collection = ""
        try:
            names = [str(each["name"]) for each in self._send("GET", "/collections", None)["collections"]]
        except (KeyError, TypeError) as error:
            raise self._strange(error) from error
        if len(names) != 1:
            raise InvalidTypeError(f"`collection` must be one of {names}.")
        return names[0]

    def _ask(self, method: str, path: str, body: Mapping[str, Any] | None) -> dict[str, Any]:
        return self._send(method, f"/collections/{quote(self.collection, safe='')}{path}", body)

    def _send(self, method: str, path: str, body: Mapping[str, Any] | None) -> dict[str, Any]:
        content = None if body is None else json.dumps(body, allow_nan=False).encode()
        try:
            status, answer = self._exchange(method, self._parts.path.rstrip("/") + path, content)
            words = parse_json(answer)
        except (HTTPException, OSError, ValueError) as error:
            raise UnavailableError(f"`{self.url}` does not answer: {error!r}. Is the service running?") from error
        if not isinstance(words, dict):
            raise FileFormatError(f"`{self.url}` does not answer as a service of ahop does.")
        if status < HTTPStatus.BAD_REQUEST:
            return words
        said = " ".join(str(words[each]) for each in ("error", "mend") if each in words)
        if status in LATER:
            raise UnavailableError(f"`{self.url}` says: {said}")
        raise InvalidValueError(f"`{self.url}` refuses this: {said}")

    def _exchange(self, method: str, path: str, content: bytes | None) -> tuple[int, bytes]:
        """One request on the connection of this thread, which the service may have closed in the meantime."""
        made: HTTPConnection | None = getattr(self._open, "made", None)
        if made is not None:
            try:
                return self._on(made, method, path, content)
            except (ConnectionError, HTTPException):  # nothing of an answer has come: it was closed before
                made.close()
        kind = HTTPSConnection if self._parts.scheme == "https" else HTTPConnection
        self._open.made = made = kind(self._parts.hostname or "", self._parts.port, timeout=self.timeout)
        self._made.add(made)
        return self._on(made, method, path, content)

    def _on(self, made: HTTPConnection, method: str, path: str, content: bytes | None) -> tuple[int, bytes]:
        try:
            made.request(method, path, content, self._headers)
            response = made.getresponse()
            return response.status, response.read()
        except BaseException:
            made.close()
            self._open.made = None
            raise

    def _strange(self, error: Exception) -> FileFormatError:
        return FileFormatError(f"`{self.url}` does not answer as this release of ahop does: {error!r}")


def _rows(rows: Tensor) -> list[list[float | None]]:
    """Numbers as JSON has them."""
    return [[None if each != each else each for each in row] for row in rows.tolist()]


def _plain(where: Mapping[str, object]) -> dict[str, object]:
    """Values of a filter as JSON has them."""
    if not isinstance(where, Mapping):
        raise InvalidTypeError(
            f"`where` must name columns and the values that they may have; got {type(where).__name__}. For some rows "
            "pass `{'id': ids}`."
        )
    found: dict[str, object] = {}
    for name, value in where.items():
        several = isinstance(value, list | tuple | set | frozenset | Tensor | np.ndarray)
        found[str(name)] = [_entry(each) for each in entries("where", value)] if several else _entry(value)  # type: ignore[arg-type]
    return found


def _entry(value: object) -> object:
    return value.item() if isinstance(value, np.generic | Tensor) else value
