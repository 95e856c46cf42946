"""One writer at a time on a local disk. The system lets go of the lock of a process that dies."""

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ahop.errors import ConflictError

if sys.platform != "win32":
    import fcntl

LOCK = ".lock"
# How long to wait for other writers, and between two looks, in seconds.
PATIENCE, LONGEST_LOOK = 120.0, 0.05


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Wait for the other writers, then be the only one."""
    if sys.platform == "win32":  # there, writers rely on what Lance itself notices
        yield
        return
    handle = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        _wait(handle, folder)
        yield
    finally:
        os.close(handle)  # which lets go of the lock


def _wait(handle: int, folder: Path) -> None:
    until, look = time.monotonic() + PATIENCE, 0.001
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except OSError as error:
            if time.monotonic() > until:
                raise ConflictError(
                    f"Another writer has held `{folder}` for {PATIENCE:g} seconds. See what it does, then try again."
                ) from error
        time.sleep(look)
        look = min(2 * look, LONGEST_LOOK)
