"""Use one thread for small tensors."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

# Entries of the copies up to which one thread is as fast as several.
SMALL = 1 << 21


@contextmanager
def few_threads(entries: int) -> Iterator[None]:
    """One thread for fits to so many entries, if these are few; as many as before afterwards."""
    before = torch.get_num_threads()
    if entries > SMALL or before == 1:
        yield
        return
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
