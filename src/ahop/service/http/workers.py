"""Several processes that answer at one port. One that dies is replaced, and the others answer meanwhile."""

import os
import signal
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import final

from ahop.service.logs import log

# Who dies sooner than this after its start is not replaced at once: starting may be what kills it.
YOUNG_SECONDS = 1.0
ENDING = (signal.SIGTERM, signal.SIGINT)


@final
class Workers:
    """Forks, watches and ends the processes.

    This process only watches: it must have imported what they need, so that a new one starts within a moment, and
    must not have started threads, opened tables or computed anything, which a fork would not survive.

    Args:
        count: how many.
        serve: what each of them does until a signal ends it; returns its exit code. One that is not 0 says that
            starting is of no use, and ends all.
        died: called with the number of a process that is gone.
    """

    def __init__(self, count: int, serve: Callable[[], int], died: Callable[[int], None]) -> None:
        self._count, self._serve, self._died = count, serve, died
        self._started: dict[int, float] = {}
        self._ends = False
        # Nothing is ever written: it is closed when this process is gone, however that comes about.
        self._alive = os.pipe()

    def run(self) -> int:
        """Until a signal comes, or a worker says that there is no use; returns the exit code."""
        for each in ENDING:
            signal.signal(each, self._end)
        for _ in range(self._count):
            self._start()
        code = 0
        while self._started:
            number, status = os.wait()
            age = time.monotonic() - self._started.pop(number)
            self._died(number)
            left = os.waitstatus_to_exitcode(status)
            if left > 0 and not self._ends:
                code = left
                self._end(signal.SIGTERM, None)
            if self._ends:
                continue
            log("replaced", worker=number, code=left)
            time.sleep(max(0.0, YOUNG_SECONDS - age))
            if not self._ends:
                self._start()
        return code

    def _start(self) -> None:
        # No signal between the fork and the line that remembers it, nor to a child that would take it for its parent's.
        signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
        number = os.fork()
        if number:
            self._started[number] = time.monotonic()
            signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)
            return
        code = 1
        try:
            os.setpgid(0, 0)  # an interrupt at the terminal is for the process that watches
            os.close(self._alive[1])
            for each in ENDING:
                signal.signal(each, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)
            threading.Thread(target=self._watch, name="ahop-watched", daemon=True).start()
            code = self._serve()
        finally:
            os._exit(code)  # nothing of the process that was forked is to be tidied up twice

    def _watch(self) -> None:
        """End when nobody watches any more."""
        os.read(self._alive[0], 1)
        os.kill(os.getpid(), signal.SIGTERM)

    def _end(self, sig: int, frame: FrameType | None) -> None:
        self._ends = True
        for number in self._started:
            os.kill(number, signal.SIGTERM)
