"""The body of a request, no larger and no slower than the limits allow."""

import asyncio
from http import HTTPStatus

from starlette.requests import Request

from ahop.service.collections.batching import BusyError
from ahop.service.http.answers import RefusedError
from ahop.service.http.gate import Held, told_of
from ahop.service.options import Limits

# How many times too large a body may be for its sender to hear so.
HEARD = 4


async def receive_body(request: Request, limits: Limits, held: Held) -> bytes:
    """All of it. One that is too large is not kept, but taken for a while: who still sends cannot hear."""
    most, body, taken, told = limits.body_bytes, bytearray(), 0, told_of(request)
    try:
        async with asyncio.timeout(limits.body_seconds):
            async for chunk in request.stream():
                taken += len(chunk)
                if taken <= most:
                    body += chunk
                    held.bytes += len(chunk)
                    told.held_bytes += len(chunk)
                if taken > HEARD * most or held.bytes > limits.held_bytes:
                    break
    except TimeoutError:
        raise RefusedError(
            HTTPStatus.REQUEST_TIMEOUT,
            f"The body was not here after {limits.body_seconds:g} seconds.",
            Connection="close",
        ) from None
    if held.bytes > limits.held_bytes:
        raise BusyError(1)
    if taken > most:
        raise RefusedError(
            HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
            f"The body may have {most} bytes.",
            "Send fewer rows at a time.",
            Connection="close",
        )
    return bytes(body)
