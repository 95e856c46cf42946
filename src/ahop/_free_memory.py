"""Check that enough memory is free before it is allocated."""

import os
from pathlib import Path

from ahop.errors import InsufficientMemoryError


def free_bytes() -> int | None:
    """What is free on this machine; None where it does not say."""
    meminfo = Path("/proc/meminfo")
    try:
        if meminfo.exists():
            lines = dict(line.split(":", 1) for line in meminfo.read_text().splitlines() if ":" in line)
            return int(lines["MemAvailable"].split()[0]) * 1024
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (KeyError, OSError, ValueError, AttributeError):
        return None


def check_free_memory(needed: int, what: str) -> None:
    free = free_bytes()
    if free is not None and needed > free:
        raise InsufficientMemoryError(
            f"{what} need {needed / 2**30:.1f} GiB and {free / 2**30:.1f} GiB are free. Take fewer patterns at a "
            "time, fewer lifted dimensions (a larger `tolerance`), or a machine with more memory."
        )
