"""Upkeep: work that is done at intervals, unasked."""

import logging
import threading
from collections.abc import Callable
from typing import final

from ahop.errors import AhopError
from ahop.service.logs import log


@final
class Upkeep:
    """Calls a function again and again, in a thread of its own; what goes wrong is logged, and tried again.

    Args:
        seconds: between two calls; 0 for none at all.
    """

    def __init__(self, name: str, seconds: float, work: Callable[[], None]) -> None:
        self._name, self._seconds, self._work = name, seconds, work
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"ahop-{name}", daemon=True)
        if seconds > 0:
            self._thread.start()

    def close(self) -> None:
        """Wait for the call that runs, and end."""
        self._ends.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        while not self._ends.wait(self._seconds):
            try:
                self._work()
            except (AhopError, OSError) as error:
                log(f"{self._name} failed", logging.WARNING, error)
