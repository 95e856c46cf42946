"""Children: each trial is a process of its own, forked from one that has everything imported and has opened nothing."""

import logging
import os
import select
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

# A child that has not ended after so many seconds hangs.
LONGEST: Final = 60.0

Say = Callable[[object], None]


@dataclass(frozen=True)
class Ended:
    """What a child said, line by line, and how it ended: 0, the number of a signal below 0, or None if it hung."""

    lines: list[str]
    status: int | None

    @property
    def is_killed(self) -> bool:
        return self.status == -signal.SIGKILL


class Child:
    """A process that runs a function, which may say something through a pipe."""

    def __init__(self, work: Callable[[Say], None]) -> None:
        reading, writing = os.pipe()
        sys.stdout.flush()
        with warnings.catch_warnings():  # Lance warns of forks; nothing of it was used in this process
            warnings.simplefilter("ignore")
            self.process = os.fork()
        if self.process == 0:
            os.close(reading)
            _run(work, writing)
        os.close(writing)
        self._reading, self._said = reading, b""

    def first_line(self) -> None:
        """Wait until it has said something."""
        while b"\n" not in self._said and (chunk := os.read(self._reading, 65536)):
            self._said += chunk

    def kill(self) -> None:
        os.kill(self.process, signal.SIGKILL)

    def wait(self, longest: float = LONGEST) -> Ended:
        is_late, until = False, time.monotonic() + longest
        while True:
            ready, _, _ = select.select([self._reading], [], [], max(0.0, until - time.monotonic()))
            if not ready:
                is_late = True
                self.kill()
                break
            if not (chunk := os.read(self._reading, 65536)):
                break
            self._said += chunk
        os.close(self._reading)
        _, status = os.waitpid(self.process, 0)
        lines = self._said.decode().split("\n")[:-1]  # the last may be half a line
        return Ended(lines, None if is_late else os.waitstatus_to_exitcode(status))


def run(work: Callable[[Say], None]) -> Ended:
    return Child(work).wait()


def _run(work: Callable[[Say], None], pipe: int) -> None:
    """In the child; never returns."""
    status = 1
    try:
        warnings.simplefilter("ignore")
        logging.disable()
        work(lambda word: _write(pipe, word))
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)


def _write(pipe: int, word: object) -> None:
    os.write(pipe, f"{word}\n".encode())
