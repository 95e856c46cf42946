"""Responses: one shape for answers, one for errors."""

import json
from collections.abc import Mapping
from http import HTTPStatus
from math import isfinite
from typing import Any

import numpy as np
import torch
from starlette.responses import Response
from torch import Tensor

from ahop.errors import (
    AhopError,
    ConflictError,
    DataNotFoundError,
    InsufficientMemoryError,
    UnavailableError,
)
from ahop.memory.recall import Recall, cut
from ahop.operate.linking.edges import Edges
from ahop.operate.linking.links import links_of, share_unmatched
from ahop.service.collections.batching import BusyError
from ahop.service.collections.snapshot import BaseSnapshot, Passing, Snapshot
from ahop.service.request import LinkBody, RecallRequest, TooLargeError

# Bars of an explanation.
BARS = 8


class RefusedError(Exception):
    """A request that is answered by an error.

    Args:
        words: what is wrong.
        hint: what to do about it.
    """

    def __init__(self, status: int, words: str, hint: str | None = None, **headers: str) -> None:
        super().__init__(words)
        self.status, self.hint = int(status), hint
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}

    def response(self) -> Response:
        words = {"error": str(self)} | ({} if self.hint is None else {"hint": self.hint})
        return json_response(words, self.status, self.headers)


def json_response(
    words: dict[str, Any],
    status: int = HTTPStatus.OK,
    headers: dict[str, str] | None = None,
    numbers: Mapping[str, Tensor] | None = None,
) -> Response:
    """JSON in ASCII, so that no text can fail to be sent; NaN must be null by now.

    Args:
        numbers: further fields, in which NaN becomes null.
    """
    more = "".join(f', "{name}": {_text(each)}' for name, each in (numbers or {}).items())
    content = json.dumps(words, allow_nan=False)[:-1] + more + "}"
    return Response(content, int(status), headers, "application/json")


def refused(error: BaseException) -> RefusedError:
    """Response to an error of ahop."""
    if isinstance(error, RefusedError):
        return error
    if isinstance(error, BusyError):
        seconds = str(error.seconds)
        return RefusedError(
            HTTPStatus.TOO_MANY_REQUESTS, str(error), "Ask again after `Retry-After` seconds.", Retry_After=seconds
        )
    if isinstance(error, UnavailableError | InsufficientMemoryError):
        return RefusedError(HTTPStatus.SERVICE_UNAVAILABLE, str(error), "Ask again later.", Retry_After="1")
    if isinstance(error, TooLargeError):
        return RefusedError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, str(error))
    if isinstance(error, ConflictError):
        return RefusedError(HTTPStatus.CONFLICT, str(error))
    if isinstance(error, DataNotFoundError):
        return RefusedError(HTTPStatus.NOT_FOUND, str(error))
    assert isinstance(error, AhopError)
    return RefusedError(HTTPStatus.BAD_REQUEST, str(error))


def recall_response(
    request: RecallRequest, snapshot: BaseSnapshot, found: Recall[Tensor], rows: Passing | None
) -> Response:
    """Answer of a recall."""
    available = int((found.indices >= 0).sum(-1).max()) if len(found.indices) else min(request.k, len(snapshot))
    found = cut(found, slice(None), min(request.k, available))
    words: dict[str, Any] = {"ids": snapshot.numbers_of(found.indices).tolist()}
    numbers = {"posterior": found.posterior}
    if found.labels is not None:
        words["labels"] = found.labels.tolist()
    if found.unknown is not None:
        numbers["unknown"] = found.unknown
    if request.patterns:
        numbers["patterns"] = found.patterns
    if (policy := request.thresholds()) is not None:
        made = found.decide(policy)
        words["actions"], words["confidence"] = made.actions.tolist(), made.confidence.tolist()
        if made.sets is not None:
            words["sets"] = [list(each) for each in made.sets]
    if isinstance(snapshot, Snapshot):
        words |= _looked_up(request, snapshot, found.indices, rows)
    words |= {"checked": found.is_checked, "exhausted": available < request.k, "version": snapshot.version}
    return json_response(words, numbers=numbers)


def _looked_up(request: RecallRequest, snapshot: Snapshot, indices: Tensor, rows: Passing | None) -> dict[str, Any]:
    """Fields of an answer that patterns and columns in this process are needed for."""
    words = dict[str, Any]()
    if request.columns:
        known = snapshot.metadata.columns
        words["columns"] = {
            name: [[None if row < 0 else known[name].values[row] for row in some] for some in indices.tolist()]
            for name in request.columns
        }
    if request.explain:
        words["explanations"] = [_explanation(request, snapshot, place, rows) for place in range(len(request.queries))]
    return words


def link_words(snapshot: Snapshot, found: Recall[Tensor], rows: Passing | None, asked: LinkBody) -> dict[str, Any]:
    """Answer of a link, from the candidates of each query."""
    memory, count = snapshot.memory, len(found.indices)
    detector, available = memory.detector, snapshot.count(rows)
    share = share_unmatched(asked.unmatched, count, available, asked.one_to_one, detector is not None)
    if not available:
        return _no_links(count, memory.labels is not None) | {"version": snapshot.version}
    found = cut(found, slice(None), min(found.indices.shape[1], available))
    prior = 0.0 if detector is None else detector.log_prior_odds
    edges = Edges.of(found.indices, found.posterior, found.unknown, prior, len(snapshot))
    none = torch.zeros(len(snapshot), dtype=torch.bool)
    links = links_of(edges, share, asked.one_to_one, 1, snapshot.ids.numpy(), np.arange(count), none)
    words: dict[str, Any] = {
        "queries": links.right.tolist(),
        "ids": links.left.tolist(),
        "probability": links.probability.tolist(),
        "unmatched": links.unmatched_right.rows.tolist(),
        "unmatched_probability": links.unmatched_right.probability.tolist(),
        "unmatched_share": links.unmatched_share,
    }
    if memory.labels is not None:
        words["labels"] = [memory.labels[snapshot.row_of(each)] for each in words["ids"]]
    return words | {"version": snapshot.version}


def _no_links(count: int, has_labels: bool) -> dict[str, Any]:
    """Among no rows, every query is unmatched."""
    none: dict[str, Any] = {name: [] for name in ("queries", "ids", "probability", *["labels"] * has_labels)}
    return none | {
        "unmatched": list(range(count)),
        "unmatched_probability": [1.0] * count,
        "unmatched_share": 1.0 if count else 0.0,
    }


def _explanation(request: RecallRequest, snapshot: Snapshot, place: int, rows: Passing | None) -> dict[str, Any]:
    group = None if request.groups is None else request.groups[place]
    found = snapshot.explain(request.queries[place : place + 1].to(snapshot.memory.patterns), rows, group)
    bars = [
        {name: _finite(value) if isinstance(value, float) else value for name, value in vars(bar).items()}
        for bar in found.shown(BARS)
    ]
    return {
        "answer": found.answer,
        "rival": found.rival,
        "posterior": _finite(found.posterior),
        "log_odds": _finite(found.log_odds),
        "words": str(found),
        "bars": bars,
    }


def _finite(value: float) -> float | None:
    return value if isfinite(value) else None


def _text(values: Tensor) -> str:
    """JSON text of numbers; null where there is none. It is written once, with the digits of their precision."""
    digits, shape = "%.9g" if values.dtype == torch.float32 else "%.17g", list(values.shape)
    for count in shape[::-1]:
        digits = "[" + ", ".join([digits] * count) + "]"
    return (digits % tuple(values.flatten().tolist())).replace("nan", "null")
