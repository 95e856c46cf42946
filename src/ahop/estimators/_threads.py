"""`n_jobs`, for work that torch does in threads."""

import os
from contextlib import AbstractContextManager, nullcontext

from ahop._core.own_threads import own_threads
from ahop.errors import InvalidValueError


def threads(n_jobs: int | None) -> AbstractContextManager[None]:
    """Torch works on so many threads inside, for this caller; as many as before afterwards.

    Args:
        n_jobs: None leaves torch as it is; -1 is all cores, -2 all but one, and so on.
    """
    return nullcontext() if n_jobs is None else own_threads(_count(n_jobs))


def _count(n_jobs: int) -> int:
    if n_jobs == 0:
        raise InvalidValueError(
            "`n_jobs` must not be 0; pass None for the threads that torch has, or -1 for all cores."
        )
    return n_jobs if n_jobs > 0 else max(1, (os.cpu_count() or 1) + 1 + n_jobs)
