"""Connections that send or read too slowly are closed, so that they harm nobody."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from ahop.service.http.gate import SMALL_ANSWER, Held
from ahop.service.options import Limits

# Seconds that a connection which has not asked yet is left, when the service ends.
GRACE = 1.0


def protocol_of(
    limits: Limits, held: Held, refusal: Callable[[bytes], bytes | None] = lambda _: None
) -> type[H11Protocol]:
    """HTTP/1.1 of uvicorn with a clock on each connection.

    Headers must be whole `header_seconds` after the connection or the last answer; a request must be over when all
    its parts have had their time, and its answer be taken `write_seconds` after it was written. Where too many
    connections are open, the one that has waited longest for its first headers makes room.

    Args:
        held: is told of connections whose answers are not taken.
        refusal: what answers a request that came in one piece and is not let in; None lets it in.
    """
    longest = limits.request_seconds
    idle: dict[Any, None] = {}  # connections without a request, the oldest first

    class ClockedProtocol(H11Protocol):
        _clock: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            transport.set_write_buffer_limits(SMALL_ANSWER)
            self._wait()
            if len(self.connections) > limits.connections:
                next(iter(idle)).transport.abort()  # maybe this one

        def connection_lost(self, exc: Exception | None) -> None:
            self._stop()
            idle.pop(self, None)
            held.unread.pop(self, None)
            super().connection_lost(exc)

        def pause_writing(self) -> None:
            super().pause_writing()
            held.unread[self] = self.transport.get_write_buffer_size

        def resume_writing(self) -> None:
            super().resume_writing()
            held.unread.pop(self, None)
            if self.cycle is not None and self.cycle.response_complete:
                self._wait()

        def data_received(self, data: bytes) -> None:
            before = self.cycle
            if self.conn.their_state is h11.IDLE and not self.conn.trailing_data[0] and (answer := refusal(data)):
                self.transport.write(answer)
                self.transport.close()
                return
            super().data_received(data)
            if self.cycle is not before:
                idle.pop(self, None)
                if not self.cycle.response_complete:
                    self._start(longest)

        def on_response_complete(self) -> None:
            super().on_response_complete()  # which may begin with the next request, if that is here already
            if not self.cycle.response_complete:
                self._start(longest)
            elif self.flow.write_paused:
                self._unset_keepalive_if_required()
                self._start(limits.write_seconds)
            else:
                self._wait()

        def shutdown(self) -> None:
            asked: Any = self.cycle
            if asked is None:  # it was accepted, so what it is about to ask is answered
                self._start(min(GRACE, limits.header_seconds))
            else:
                super().shutdown()

        def send_400_response(self, msg: str) -> None:
            if self.conn.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
                self.transport.abort()  # an answer is on its way; there is no room for another
                return
            body = json.dumps({"error": msg, "hint": "Send HTTP/1.1; headers may be short."}).encode()
            headers = [
                ("content-type", "application/json"),
                ("content-length", str(len(body))),
                ("connection", "close"),
            ]
            for event in (h11.Response(status_code=400, headers=headers), h11.Data(data=body), h11.EndOfMessage()):
                self.transport.write(self.conn.send(event) or b"")
            self.transport.close()

        def _wait(self) -> None:
            idle[self] = None
            self._start(limits.header_seconds)

        def _start(self, seconds: float) -> None:
            self._stop()
            self._clock = self.loop.call_later(seconds, self.transport.abort)

        def _stop(self) -> None:
            if self._clock is not None:
                self._clock.cancel()
                self._clock = None

    return ClockedProtocol
