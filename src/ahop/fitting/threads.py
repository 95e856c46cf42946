"""Use one thread for small tensors."""

from contextlib import AbstractContextManager, nullcontext

from ahop._core.own_threads import own_threads

# Entries of the copies up to which one thread is as fast as several.
SMALL = 1 << 21


def few_threads(entries: int) -> AbstractContextManager[None]:
    """One thread for fits to so many entries, if these are few."""
    return own_threads(1) if entries <= SMALL else nullcontext()
