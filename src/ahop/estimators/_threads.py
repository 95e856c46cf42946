"""`n_jobs`, for work that torch does in threads."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from ahop.errors import InvalidValueError


@contextmanager
def threads(n_jobs: int | None) -> Iterator[None]:
    """Torch works on so many threads inside; as many as before afterwards.

    Args:
        n_jobs: None leaves torch as it is; -1 is all cores, -2 all but one, and so on.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(before if n_jobs is None else _count(n_jobs))
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _count(n_jobs: int) -> int:
    if n_jobs == 0:
        raise InvalidValueError(
            "`n_jobs` must not be 0; pass None for the threads that torch has, or -1 for all cores."
        )
    return n_jobs if n_jobs > 0 else max(1, (os.cpu_count() or 1) + 1 + n_jobs)
