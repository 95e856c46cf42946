"""HTTP client."""

import json
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any, final
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

import torch
from torch import Tensor
from typing_extensions import override

from ahop._core.checks import as_group_names
from ahop._core.json import parse_json
from ahop._core.typing import Queries
from ahop.errors import FileFormatError, InvalidValueError, UnavailableError
from ahop.memory.recall import Recall, joined
from ahop.memory.recaller import BaseRecaller

# What a service takes: queries of a request, answers to each, and numbers of patterns in one answer.
MOST_QUERIES, MOST_ANSWERS, MOST_NUMBERS = 1024, 1000, 2**20


@final
class HttpClient(BaseRecaller[Mapping[str, object]]):
    """A service that `serve` started, on this machine or another.

    Args:
        url: where it answers, such as `http://127.0.0.1:8000`.
        timeout: seconds to wait for an answer.
        key: the secret of a key, if the service asks for one.
    """

    def __init__(self, url: str, timeout: float = 30.0, key: str | None = None) -> None:
        self.url, self.timeout = url.rstrip("/"), timeout
        self._headers = {"Content-Type": "application/json"}
        if key is not None:
            self._headers["Authorization"] = f"Bearer {key}"
        if not self.url.startswith(("http://", "https://")):
            raise InvalidValueError(f"`url` must begin with http:// or https://; got {url!r}.")
        facts = self._ask("/health", None)
        self._dimensions, self.rows = int(facts["dimensions"]), int(facts["patterns"])

    def __len__(self) -> int:
        return self.rows

    @property
    @override
    def columns(self) -> None:
        return None

    @property
    @override
    def dimensions(self) -> int:
        return self._dimensions

    @override
    def _recalled(
        self, queries: Queries, k: int, where: Mapping[str, object] | None, groups: Sequence[object] | None
    ) -> Recall[Tensor]:
        names, k = None if groups is None else as_group_names(groups, len(queries)), min(k, self.rows)
        if k > MOST_ANSWERS:
            raise InvalidValueError(f"`k` must be at most {MOST_ANSWERS} over HTTP; got {k}.")
        size = max(1, min(MOST_QUERIES, MOST_NUMBERS // (k * self.dimensions)))
        cuts = [slice(start, start + size) for start in range(0, len(queries), size)] or [slice(0, 0)]
        return joined([self._recall(queries[cut], k, where, None if names is None else names[cut]) for cut in cuts])

    def _recall(
        self, queries: Queries, k: int, where: Mapping[str, object] | None, groups: list[str] | None
    ) -> Recall[Tensor]:
        rows = [[None if each != each else each for each in row] for row in queries.tolist()]
        body: dict[str, Any] = {"queries": rows, "k": k, "patterns": True}
        body |= {"where": where} if where is not None else {}
        body |= {"groups": groups} if groups is not None else {}
        found = self._ask("/recall", body)
        shape = len(queries), k
        try:
            indices = torch.tensor(found["indices"], dtype=torch.long).reshape(shape)
            posterior = torch.tensor(found["posterior"]).reshape(shape)
            numbers = [
                [[float("nan") if each is None else each for each in row] for row in rows] for rows in found["patterns"]
            ]
            patterns = torch.tensor(numbers).reshape(*shape, self.dimensions)
            unknown = torch.tensor(found["unknown"]) if "unknown" in found else None
        except (KeyError, TypeError, ValueError, RuntimeError) as error:
            raise FileFormatError(f"`{self.url}` does not answer as this release of ahop does: {error}") from error
        return Recall(indices, posterior, patterns, unknown, is_checked=found.get("checked") is True)

    def _ask(self, path: str, body: Mapping[str, Any] | None) -> dict[str, Any]:
        content = None if body is None else json.dumps(body).encode()
        request = Request(self.url + path, content, self._headers)
        try:
            with urlopen(request, timeout=self.timeout) as response:  # nosec B310 # it begins with http, which was checked
                answer = parse_json(response.read())
        except HTTPError as error:
            said = _said(error)
            if error.code in (HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.TOO_MANY_REQUESTS):
                raise UnavailableError(f"`{self.url}` says: {said}") from error
            raise InvalidValueError(f"`{self.url}` refuses this: {said}") from error
        except (URLError, TimeoutError, ConnectionError, ValueError) as error:
            raise UnavailableError(f"`{self.url}` does not answer: {error}. Is the service running?") from error
        if not isinstance(answer, dict):
            raise FileFormatError(f"`{self.url}` does not answer as a service of ahop does.")
        return answer


def _said(error: HTTPError) -> str:
    try:
        return str(parse_json(error.read())["error"])
    except (ValueError, KeyError, TypeError):
        return str(error)
