"""A lock for writers on a local disk."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from ahop.errors import ConflictError

LOCK = ".lock"
# How long to wait for other writers, in seconds.
TIMEOUT = 120.0


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Wait for the other writers, then be the only one."""
    lock = FileLock(folder / LOCK, mode=0o666, thread_local=False)
    try:
        lock.acquire(timeout=TIMEOUT, poll_interval=0.005)
    except Timeout as error:
        raise ConflictError(
            f"Another writer has held `{folder}` for {TIMEOUT:g} seconds. See what it does, then try again."
        ) from error
    try:
        yield
    finally:
        lock.release()
