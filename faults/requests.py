"""S3, S6: requests with wrong bodies, paths, headers and bytes: none is answered by a failure, and right ones are."""

import random
import socket
from http.client import HTTPException
from pathlib import Path
from typing import Any

from ahop.service.testing import Running
from faults.campaign import CRASHES, SERVER_ERRORS, UNANSWERED, Campaign, Tally
from faults.formats import PAIRS, RECALL
from faults.mutations import TOKENS, bent_bytes, bent_json, to_json
from faults.services import answers, running, shown

REQUESTS, BATCH = 500, 50  # of a chunk, between two right ones
BODIES: dict[str, Any] = {
    "recall": RECALL,
    "pairs": PAIRS,
    "add": {"patterns": [[0.1, 0.2, 0.3, 0.4]], "ids": [900], "metadata": {"floor": [1]}},
    "delete": {"ids": [3]},
    "fit": {"queries": [[0.1, None, 0.3, 0.9]], "similarity": "no such"},
    "refresh": {},
    "versions/1/activate": {},
}
NUMBERS = ("1e999", "-1e999", "NaN", "Infinity", "9" * 100_000, "1e-999", '"\\ud800"', "-0", "0.1e", "1" + "0" * 400)
PATHS = (
    "/",
    "/docs",
    "/livez",
    "/metrics",
    "/collections",
    "/collections/none",
    "/%00",
    "/collections/%2e%2e",
    "//",
    "/é",
)
METHODS = ("GET", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH", "TRACE", "BREW")
KINDS = ("application/json", "text/plain", "application/octet-stream", "", "a" * 5000)


def chunk(number: int, folder: Path) -> Tally:
    chance, tally = random.Random(number), Tally()
    with running(folder) as service:
        for place in range(REQUESTS):
            sent = _request(chance)
            answer = _sent(service, sent)
            tally.trials += 1
            status = answer.split(b" ", 2)[1:2]
            tally.counts["answered" if status else "closed"] += 1
            if status and status[0].startswith(b"5"):
                tally.bad(SERVER_ERRORS, f"chunk {number}, {place}: {shown(sent)} -> {shown(answer)}")
            if place % BATCH == BATCH - 1 and not answers(service):
                tally.bad(UNANSWERED, f"chunk {number}, {place}")
        if service.process.poll() is not None or service.failures():
            tally.bad(CRASHES, f"chunk {number}: {service.process.poll()} {service.failures()[:1]}")
    return tally


def _request(chance: random.Random) -> bytes:
    """The bytes of a request."""
    name, end = chance.choice(("rooms", "phones")), chance.choice(list(BODIES))
    path, method, body = f"/collections/{name}/{end}", "POST", to_json(BODIES[end])
    how = chance.randrange(10)
    if how < 5:
        body = to_json(bent_json(bent_json(BODIES[end], chance), chance))
    elif how < 7:
        body = bent_bytes(body, chance)
    elif how == 7:
        body = f'{{"queries": [[{chance.choice(NUMBERS)}, 0, 0, 0]], "k": {chance.choice(NUMBERS)}}}'.encode()
    elif how == 8:
        path, method = chance.choice(PATHS), chance.choice(METHODS)
    length = chance.choice((len(body),) * 12 + (0, len(body) + 5, -1, 10**20))
    lines = [f"{method} {path} HTTP/1.1", "Host: localhost", "Connection: close", f"Content-Length: {length}"]
    lines += [f"Content-Type: {chance.choice(KINDS)}"] if chance.random() < 0.3 else []
    head = "\r\n".join(lines).encode("utf-8") + b"\r\n\r\n"
    if how == 9:
        head = bent_bytes(head, chance) if chance.random() < 0.5 else head.replace(b"localhost", chance.choice(TOKENS))
    return head + body


def _sent(service: Running, sent: bytes) -> bytes:
    """Bytes that come back; for a moment only where the service waits for more than was sent."""
    head, _, body = sent.partition(b"\r\n\r\n")
    is_whole = f"Content-Length: {len(body)}".encode() in head.split(b"\r\n")
    received = b""
    try:
        with socket.create_connection(("127.0.0.1", service.port), timeout=30 if is_whole else 0.3) as made:
            made.sendall(sent)
            while chunk := made.recv(65536):
                received += chunk
    except (OSError, HTTPException):
        pass
    return received


CAMPAIGN = Campaign(
    id="S3",
    name="requests",
    goal="requests that are almost right: none is answered by 5xx, and right ones are answered between them",
    counted=(SERVER_ERRORS, UNANSWERED, CRASHES),
    wanted=10_000,
    quick=500,
    chunk=chunk,
)
