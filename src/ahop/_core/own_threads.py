"""Threads of torch for the work of one thread of the program, and of no other."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Lock

import torch

_SETTING = Lock()


@contextmanager
def own_threads(count: int) -> Iterator[None]:
    """Torch works on so many threads inside, for this caller; as many as before afterwards."""
    before = _set_own(count)
    try:
        yield
    finally:
        _set_own(before)


def _set_own(count: int) -> int:
    """Returns how many there were.

    `torch.set_num_threads` sets two numbers: the caller's own, and that of all who have yet to begin. A thread that
    begins here knows the second one, and puts it back at once: only one that begins in between, within less than a
    millisecond, would start with the first.
    """
    with _SETTING:
        before = torch.get_num_threads()
        if count != before:
            with ThreadPoolExecutor(1) as other:
                common = other.submit(torch.get_num_threads).result()
                torch.set_num_threads(count)
                if count != common:
                    other.submit(torch.set_num_threads, common).result()
        return before
