"""Atomic file writes, fsync and checksums."""

import os
import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from shutil import rmtree
from uuid import uuid4

# Name of the target, machine, process and a number that nobody else draws.
PARTIAL = r"\.(?P<target>.+)\.(?P<machine>[0-9a-f]{8})-(?P<process>\d+)-[0-9a-f]{32}\.partial"


@contextmanager
def replacing(target: Path) -> Iterator[Path]:
    """A path to write to, which takes the place of the target at the end of the block; on an error the target stays.

    Whoever reads sees the old file or the new one, never half of it, also after a power cut.
    """
    _remove_abandoned(target)
    folder = target.with_name(f".{target.name}.{_machine()}-{os.getpid()}-{uuid4().hex}.partial")
    folder.mkdir()  # fails in Python's own words where the folder above is missing or closed
    beside = folder / target.name  # in a folder of its own, as safetensors writes to a file beside it
    try:
        beside.touch()
        mode = beside.stat().st_mode
        yield beside
        beside.chmod(mode)  # as the umask says, whatever wrote it
        flush(beside)
        beside.replace(target)
    finally:
        rmtree(folder, ignore_errors=True)
    flush(target.parent)


def make_folder(path: Path) -> None:
    """A folder, and those above it, whose names are on the disk when this returns."""
    missing = [each for each in (path, *path.parents) if not each.exists()]
    path.mkdir(parents=True, exist_ok=True)
    for each in missing:
        flush(each.parent)


def flush(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on the disk; folders only where they can be flushed."""
    if path.is_dir() and os.name != "posix":
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def digest(*parts: bytes | memoryview) -> str:
    """A checksum of bytes: SHA-256, which most processors have instructions for."""
    found = sha256()
    for part in parts:
        found.update(part)
    return found.hexdigest()


def _remove_abandoned(target: Path) -> None:
    """Remove files that killed processes of this machine left beside the target."""
    with suppress(OSError):
        for path in target.parent.glob(f".{_literal(target.name)}.*.partial"):
            found = re.fullmatch(PARTIAL, path.name)
            if found and found["target"] == target.name and found["machine"] == _machine() and not _runs(found):
                rmtree(path, ignore_errors=True)


def _runs(found: re.Match[str]) -> bool:
    process = int(found["process"])
    if os.name != "posix":
        return True
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    return True


def _literal(name: str) -> str:
    return re.sub(r"([*?\[])", r"[\1]", name)


def _machine() -> str:
    return sha256(socket.gethostname().encode()).hexdigest()[:8]
