"""The shim between a process and the system: compiled once, loaded when the campaigns start, armed in a child."""

import ctypes
import errno
import os
import subprocess
import sys
from enum import IntEnum
from hashlib import sha256
from pathlib import Path
from tempfile import gettempdir

SOURCE = Path(__file__).with_name("shim.c")


class Fault(IntEnum):
    """What happens at the chosen step; the numbers are those of shim.c."""

    NOTHING = 0
    KILL = 1
    ERROR_ONCE = 2
    ERROR_FROM = 3
    SHORT_WRITE = 4
    READ_ONCE = 5
    READ_FROM = 6


def preload() -> None:
    """Start this process anew with the shim in it, unless it is there already."""
    library = _compiled()
    if os.environ.get("LD_PRELOAD") != str(library):
        environment = {**os.environ, "LD_PRELOAD": str(library), "OMP_NUM_THREADS": "1"}
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], environment)


def arm(
    folder: Path, fault: Fault = Fault.NOTHING, step: int = 0, error: int = errno.EIO, trace: Path | None = None
) -> None:
    """From now on, see what this process does below the folder; let the fault come at this step or read, from 1 on."""
    path = None if trace is None else os.fsencode(trace)
    _loaded().faults_arm(os.fsencode(folder), int(fault), step, error, path)


def mark(word: str) -> None:
    """Write a word among the steps."""
    _loaded().faults_mark(word.encode())


def steps_taken() -> int:
    return int(_loaded().faults_steps())


def reads_made() -> int:
    return int(_loaded().faults_reads())


def _loaded() -> ctypes.CDLL:
    return ctypes.CDLL(None)


def _compiled() -> Path:
    source = SOURCE.read_bytes()
    library = Path(gettempdir()) / f"ahop-faults-{sha256(source).hexdigest()[:16]}-{os.getuid()}.so"
    if not library.exists():
        beside = library.with_suffix(f".{os.getpid()}")
        subprocess.run(["gcc", "-O1", "-shared", "-fPIC", "-o", str(beside), str(SOURCE), "-ldl"], check=True)
        beside.replace(library)
    return library
