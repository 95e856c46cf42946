"""Check that enough memory is free before it is allocated."""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from ahop.errors import InsufficientMemoryError

# Files of a control group: its limit, what it holds, and the line for files that are kept and can be let go.
SECOND_VERSION = ("memory.max", "memory.current", "inactive_file")
FIRST_VERSION = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
# Bytes; the first version says 2^63 less a page where there is no limit. What is used need not be asked for then, which
# takes the kernel most of a millisecond.
NO_LIMIT = 1 << 62


def free_bytes(root: Path = Path("/")) -> int | None:
    """Free memory of this machine, or less if a container has a limit; None where nothing says.

    Args:
        root: of the files that say it.
    """
    found = [*_free_on_the_machine(root), *_free_in_containers(root)]
    return max(0, min(found)) if found else None


def _free_on_the_machine(root: Path) -> Iterator[int]:
    meminfo = root / "proc/meminfo"
    with suppress(KeyError, OSError, ValueError, AttributeError):
        if meminfo.exists():
            lines = dict(line.split(":", 1) for line in meminfo.read_text().splitlines() if ":" in line)
            yield int(lines["MemAvailable"].split()[0]) * 1024
        else:
            yield os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _free_in_containers(root: Path) -> Iterator[int]:
    """Memory that the control groups of this process leave. Not all that are named need be in sight."""
    groups, mounted = [], root / "sys/fs/cgroup"
    with suppress(OSError):
        groups = (root / "proc/self/cgroup").read_text().splitlines()
    for line in groups:
        _, controllers, path = line.split(":", 2) if line.count(":") > 1 else ("", "-", "")
        names = [name for name in path.split("/") if name not in ("", "..")]
        if not controllers:
            top, files = mounted, SECOND_VERSION
        elif "memory" in controllers.split(","):
            top, files = mounted / "memory", FIRST_VERSION
        else:
            continue
        for depth in range(len(names) + 1):
            yield from _left_by(top.joinpath(*names[:depth]), *files)


def _left_by(group: Path, limit: str, used: str, kept: str) -> Iterator[int]:
    with suppress(OSError, ValueError):  # no such group, or "max"
        most = int((group / limit).read_text())
        if most >= NO_LIMIT:
            return
        left, files = most - int((group / used).read_text()), 0
        with suppress(OSError, ValueError, KeyError):
            lines = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
            files = int(lines[kept])
        yield left + files


def check_free_memory(needed: int, what: str) -> None:
    free = free_bytes()
    if free is not None and needed > free:
        raise InsufficientMemoryError(
            f"{what} need {needed / 2**30:.1f} GiB and {free / 2**30:.1f} GiB are free. Take fewer patterns at a "
            "time, fewer lifted dimensions (a larger `tolerance`), or a machine with more memory."
        )
