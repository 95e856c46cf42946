"""So many at a time, in all processes of this user on this machine."""

import os
import tempfile
from pathlib import Path
from typing import final

from filelock import FileLock, Timeout

from ahop.errors import UnavailableError


@final
class Slots:
    """Files in the folder for temporary ones, each locked by one at most. The system unlocks those of who is gone.

    Args:
        count: how many may be taken at a time.
    """

    def __init__(self, name: str, count: int) -> None:
        self._name, self._count = name, count

    def take(self) -> FileLock | None:
        """A slot, to be released; None if all are taken."""
        folder = _own_folder()
        for number in range(self._count):
            lock = FileLock(folder / f"{self._name}-{number}.lock", thread_local=False)  # another thread releases it
            try:
                lock.acquire(timeout=0)
            except Timeout:
                continue
            return lock
        return None


def _own_folder() -> Path:
    """Folder of this user alone: others could keep the slots taken."""
    user = os.getuid() if hasattr(os, "getuid") else 0
    folder = Path(tempfile.gettempdir()) / f"ahop-{user}"
    folder.mkdir(mode=0o700, exist_ok=True)
    if os.name == "posix" and folder.stat().st_uid != user:
        raise UnavailableError(f"`{folder}` must belong to the user of this process. Remove it, or set `TMPDIR`.")
    return folder
