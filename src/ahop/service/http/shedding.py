"""Load shedding: while too many wait, a refusal must cost next to nothing."""

import re
import time
from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from typing import Final, final
from uuid import uuid4

from ahop.service.collections.batching import BusyError, Worker
from ahop.service.collections.collection import NAME as COLLECTION
from ahop.service.collections.sharded import Served
from ahop.service.http.answers import refused
from ahop.service.http.gate import NAME as REQUEST
from ahop.service.http.gate import on_every_answer
from ahop.service.http.metrics import Metrics
from ahop.service.keys import Key, key_of
from ahop.service.logs import log

RECALL: Final = rb"POST /collections/(%b)/recall HTTP/1\.1\r\n" % COLLECTION.encode()
LENGTH: Final = rb"(?i)\r\ncontent-length:[ \t]*([0-9]{1,9})[ \t]*\r\n"
SECRET: Final = rb"(?i)\r\nauthorization:[ \t]*bearer ([^\r\n]*)\r\n"
REQUEST_ID: Final = rb"(?i)\r\nx-request-id:[ \t]*(%b)[ \t]*\r\n" % REQUEST
END: Final = b"\r\n\r\n"
# As the application names it.
ROUTE: Final = "/collections/{name}/recall"
# The log hears of refusals once in so many seconds.
LOGGED: Final = 1.0


@final
class LoadShedder:
    """Before the application: a recall that would wait too long is refused by the bytes of its request alone.

    A request is looked at only if it came in one piece: then nothing of it is still on its way when the connection
    is closed. Who has no key is not told whether a collection is busy: that is left to the gate.
    """

    def __init__(
        self,
        collections: Mapping[str, Served],
        worker_of: Callable[[str], Worker],
        keys: Sequence[Key],
        metrics: Metrics,
    ) -> None:
        self._collections, self._worker_of, self._keys, self._metrics = collections, worker_of, keys, metrics
        self._count, self._logged = 0, 0.0

    def answer(self, data: bytes) -> bytes | None:
        """Refusal to send before the connection is closed; None lets the request in."""
        if (asked := re.match(RECALL, data)) is None:
            return None
        collection = self._collections.get(asked[1].decode())
        if collection is None:
            return None
        try:
            self._worker_of(collection.name).check_free(collection.cost.seconds(1))
        except BusyError as busy:
            head = data[: data.find(END) + len(END)]
            length = re.search(LENGTH, head)
            is_whole = length is not None and len(head) + int(length[1]) == len(data)
            return self._refusal(busy, head) if is_whole and self._is_known(collection, head) else None
        return None

    def _refusal(self, busy: BusyError, head: bytes) -> bytes:
        response, given = refused(busy).response(), re.search(REQUEST_ID, head)
        more = on_every_answer(given[1].decode() if given else uuid4().hex)
        headers = (*response.raw_headers, *more, (b"connection", b"close"))
        lines = [b"%b: %b\r\n" % header for header in headers]
        status = HTTPStatus(response.status_code)
        self._counted(status)
        return b"HTTP/1.1 %d %b\r\n%b\r\n%b" % (status, status.phrase.encode(), b"".join(lines), bytes(response.body))

    def _counted(self, status: HTTPStatus) -> None:
        self._metrics.ended(ROUTE, int(status), 0.0)
        self._count, now = self._count + 1, time.monotonic()
        if now > self._logged + LOGGED:
            log("load shed", requests=self._count)
            self._count, self._logged = 0, now

    def _is_known(self, collection: Served, head: bytes) -> bool:
        if not self._keys:
            return True
        secret = re.search(SECRET, head)
        key = None if secret is None else key_of(secret[1].decode("latin-1"), self._keys)
        return key is not None and key.opens(collection.name)
