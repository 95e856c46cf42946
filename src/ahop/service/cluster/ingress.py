"""Ingress behind the HTTP proxy of Ray Serve: the gate, the limits and the words of the service, before shards."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus
from typing import Any, final

import torch
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from ahop.errors import InvalidValueError
from ahop.scale.cluster.client import MOST_NUMBERS
from ahop.scale.cluster.router import ReplicaSet, Router, Timeouts
from ahop.scale.cluster.spec import ShardSpec
from ahop.scale.cluster.view import View
from ahop.scale.stores.store import open_store
from ahop.service.http.answers import RefusedError, json_response
from ahop.service.http.body import receive_body
from ahop.service.http.gate import Gate, Held, told_of
from ahop.service.http.metrics import Metrics
from ahop.service.http.traces import tracer_of_environment
from ahop.service.keys import Key
from ahop.service.options import Options
from ahop.service.request import ClusterBody, RecallRequest, read_body, recall_request

# Requests that one process works on at a time.
AT_A_TIME = 16
ROUTES = {"/recall": "POST", "/health": "GET"}


@final
class RecallDeployment:
    """One question in, one answer out.

    Args:
        name: of the service, which keys may be for.
        keys: who may ask; if there are none, everybody of this machine.
    """

    def __init__(
        self,
        spec: ShardSpec,
        handles: list[list[Any]],
        candidates: int,
        timeouts: Timeouts,
        name: str,
        keys: tuple[Key, ...],
    ) -> None:
        store = open_store(spec.address, spec.version, spec.storage_options)
        self._view, self._name = View(store, len(handles), candidates), name
        self._router = Router([ReplicaSet(each) for each in handles], timeouts)
        self._pool, self._options, self._held = ThreadPoolExecutor(AT_A_TIME), Options(keys=keys), Held()
        self._gate = Gate(self._routed, self._options, Metrics(), self._held, tracer_of_environment())

    async def __call__(self, request: Request) -> Response:
        """The answer of the application, as one response: Ray Serve sends those."""
        messages: list[Message] = []

        async def collect(message: Message) -> None:
            messages.append(message)

        await self._gate(request.scope, request.receive, collect)
        if not messages:  # whoever asked has gone
            return Response(status_code=HTTPStatus.BAD_REQUEST)
        body = b"".join(message.get("body", b"") for message in messages[1:])
        response = Response(body, messages[0]["status"])
        response.raw_headers = messages[0]["headers"]
        return response

    async def _routed(self, scope: Scope, receive: Receive, send: Send) -> None:
        # The path that the gate has judged; a URL is made of the header `Host` too, which may say anything.
        words = await self._answer(Request(scope, receive), scope["path"].rstrip("/"))
        await json_response(words)(scope, receive, send)

    async def _answer(self, request: Request, path: str) -> dict[str, Any]:
        allowed = ROUTES.get(path)
        if allowed is None or not told_of(request).key.opens(self._name):
            raise RefusedError(HTTPStatus.NOT_FOUND, "There is no such path.", "There is POST /recall and GET /health.")
        if request.method != allowed:
            raise RefusedError(HTTPStatus.METHOD_NOT_ALLOWED, f"{path} takes {allowed}.", Allow=allowed)
        if path == "/health":
            return self._facts()
        body = await receive_body(request, self._options.limits, self._held)
        return await asyncio.get_running_loop().run_in_executor(self._pool, self._recall, body)

    def _recall(self, body: bytes) -> dict[str, Any]:
        asked = recall_request(
            read_body(ClusterBody, body), self._view.dimensions, self._options.limits, self._view.columns
        )
        check_numbers(asked)
        found = self._view.recalled(self._router.answers, asked.queries, asked.k, asked.where, asked.groups)
        words = {"indices": found.indices.tolist(), "posterior": found.posterior.tolist()}
        if found.unknown is not None:
            words["unknown"] = found.unknown.tolist()
        if asked.patterns:
            numbers = found.patterns.numpy().astype(object)
            numbers[torch.isnan(found.patterns).numpy()] = None  # JSON has no NaN
            words["patterns"] = numbers.tolist()
        return words | {"checked": found.is_checked, "version": self._view.version}

    def _facts(self) -> dict[str, Any]:
        view = self._view
        return {"version": view.version, "patterns": view.rows, "dimensions": view.dimensions, "shards": view.shards}


def check_numbers(asked: RecallRequest) -> None:
    """Refuse an answer of too many numbers."""
    if asked.patterns and asked.queries.numel() * asked.k > MOST_NUMBERS:
        raise InvalidValueError(
            f"`patterns` of an answer may be {MOST_NUMBERS} numbers. Send fewer queries, or leave it out."
        )
