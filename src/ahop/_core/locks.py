"""A lock that can be copied: the copy is a new lock."""

from threading import RLock
from typing import final


@final
class CopyableLock:
    """`with lock:` as ever; a copy, or one that was pickled, is a new lock that nobody holds."""

    def __init__(self) -> None:
        self._lock = RLock()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def __deepcopy__(self, memo: object) -> "CopyableLock":
        return CopyableLock()

    def __reduce__(self) -> tuple[type["CopyableLock"], tuple[()]]:
        return CopyableLock, ()
