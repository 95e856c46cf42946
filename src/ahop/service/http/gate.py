"""Gate that every request passes first: its id, the log, its origin, and its key."""

import asyncio
import logging
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, final
from urllib.parse import urlsplit
from uuid import uuid4

from starlette.requests import ClientDisconnect, Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ahop.errors import AhopError
from ahop.service.collections.batching import BusyError
from ahop.service.http.answers import RefusedError, refused
from ahop.service.http.metrics import Metrics
from ahop.service.http.pages import FILES
from ahop.service.http.traces import Tracer
from ahop.service.keys import Key, is_loopback, key_of
from ahop.service.logs import log
from ahop.service.options import Limits, Options

# What may be asked without a key.
OPEN = frozenset({"/livez", "/readyz", *FILES})
EVERYBODY = Key("anybody", "0" * 64, may_write=True)
NAME = rb"[A-Za-z0-9_-]{1,64}"
# Bytes of an answer that is given whoever reads or not: as many as a connection may hold before it counts as unread.
SMALL_ANSWER = 2**14


@dataclass
class Told:
    """Facts about a request that is being answered; for the log and the counters."""

    id: str
    key: Key
    route: str = "none"
    collection: str | None = None
    queries: int | None = None
    held_bytes: int = 0
    answer_bytes: int = 0


@dataclass
class Held:
    """State that all requests share.

    Attributes:
        bytes: of the bodies of those that are being answered.
        answer_bytes: of the answers that are worked on.
        unread: of each connection whose answer is not taken, how many bytes that are.
        is_draining: the service is about to end: it answers, closes connections after that, and is not ready for more.
    """

    bytes: int = 0
    answer_bytes: int = 0
    unread: dict[object, Callable[[], int]] = field(default_factory=dict)
    is_draining: bool = False

    def reserve(self, told: Told, size: int, limits: Limits) -> None:
        """Count an answer of so many bytes until it is written; refuse a large one while too many are not taken."""
        unread = sum(each() for each in self.unread.values())
        if size > SMALL_ANSWER and self.answer_bytes + unread + size > limits.unread_bytes:
            raise BusyError(1)
        self.answer_bytes += size
        told.answer_bytes += size


@final
class Gate:
    """The outermost layer: no route is reached but through it."""

    def __init__(self, app: ASGIApp, options: Options, metrics: Metrics, held: Held, tracer: Tracer) -> None:
        self._app, self._options, self._metrics, self._held = app, options, metrics, held
        self._tracer = tracer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return
        headers = dict(scope["headers"])
        given = headers.get(b"x-request-id", b"")
        told = Told(given.decode() if re.fullmatch(NAME, given) else uuid4().hex, EVERYBODY)
        scope.setdefault("state", {})["told"] = told
        if self._options.log_accepted:
            log("accepted", request=told.id)
        started, status, is_started = time.perf_counter(), 0, False

        async def answer(message: Message) -> None:
            nonlocal status, is_started
            if message["type"] == "http.response.start":
                status, is_started = message["status"], True
                more = on_every_answer(told.id)
                more += [(b"connection", b"close")] if self._held.is_draining else []
                message = {**message, "headers": [*message["headers"], *more]}
            await send(message)

        try:
            try:
                told.key = self._admitted(scope["path"], headers)
                await self._app(scope, receive, answer)
            except (AhopError, RefusedError) as error:
                await refused(error).response()(scope, receive, answer)
        except ClientDisconnect:
            status = 499
        except asyncio.CancelledError:
            raise
        except Exception as error:
            status = status or int(HTTPStatus.INTERNAL_SERVER_ERROR)
            log("failure", logging.ERROR, error, request=told.id)
            if is_started:
                raise
            hint = "This is a defect of the service: report it, with the id of the request."
            failure = RefusedError(HTTPStatus.INTERNAL_SERVER_ERROR, f"Request {told.id} failed.", hint)
            await failure.response()(scope, receive, answer)
        finally:
            self._held.bytes -= told.held_bytes
            self._held.answer_bytes -= told.answer_bytes
            told.route = getattr(scope.get("route"), "path", "none")
            self._count(told, status, time.perf_counter() - started, headers)

    def _admitted(self, path: str, headers: dict[bytes, bytes]) -> Key:
        """Find the key of a request; raises where it may not be answered."""
        if b"upgrade" in headers:
            raise RefusedError(HTTPStatus.BAD_REQUEST, "There are no WebSockets here.", "Send plain HTTP/1.1 requests.")
        self._check_browser(headers)
        if path in OPEN or not self._options.keys:
            return EVERYBODY
        scheme, _, secret = headers.get(b"authorization", b"").decode("latin-1").partition(" ")
        key = key_of(secret, self._options.keys) if scheme.lower() == "bearer" else None
        if key is None:
            raise RefusedError(
                HTTPStatus.UNAUTHORIZED,
                "This needs a key.",
                "Send the header `Authorization: Bearer KEY`.",
                WWW_Authenticate="Bearer",
            )
        return key

    def _check_browser(self, headers: dict[bytes, bytes]) -> None:
        """A page of another place must not ask in the name of whoever has it open."""
        host = headers.get(b"host", b"").decode("latin-1")
        origin = headers.get(b"origin")
        if origin is not None and _place_of(origin.decode("latin-1")) != host:
            raise RefusedError(HTTPStatus.FORBIDDEN, "Pages of other places may not ask here.")
        if not self._options.keys and not is_loopback(_name_of(host)):
            raise RefusedError(
                HTTPStatus.MISDIRECTED_REQUEST,
                "Without a key, only this machine is answered, by the names localhost and 127.0.0.1.",
                "Ask http://127.0.0.1, or start the service with a key.",
            )

    def _count(self, told: Told, status: int, seconds: float, headers: dict[bytes, bytes]) -> None:
        self._metrics.ended(told.route, status, seconds)
        fields: dict[str, Any] = {
            "request": told.id,
            "route": told.route,
            "status": status,
            "ms": round(1000 * seconds, 2),
            "key": told.key.name,
        }
        if told.collection is not None:
            fields["collection"] = told.collection
        if told.queries is not None:
            fields["queries"] = told.queries
        log("request", **fields)
        self._tracer.ended(told.route, seconds, headers, fields)


def on_every_answer(request: str) -> list[tuple[bytes, bytes]]:
    """The headers that no answer is without."""
    return [(b"x-request-id", request.encode()), (b"x-content-type-options", b"nosniff")]


def told_of(request: Request) -> Told:
    found: Told = request.scope["state"]["told"]
    return found


def _place_of(origin: str) -> str | None:
    """The host and port in a header `Origin`; None where it is bent."""
    try:
        return urlsplit(origin).netloc
    except ValueError:
        return None


def _name_of(host: str) -> str:
    """The name in a header `Host`, without the port."""
    try:
        return urlsplit(f"//{host}").hostname or "localhost"
    except ValueError:
        return "?"
