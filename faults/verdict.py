"""What a look at the disk after a fault says about the promise."""

from collections.abc import Callable
from pathlib import Path

from ahop.errors import AhopError
from faults import forks
from faults.campaign import LOST, NOT_OPENED, PHANTOM, UNTYPED, Tally
from faults.subjects import Subject, look

COUNTED = (LOST, PHANTOM, NOT_OPENED, UNTYPED)


def attempted(work: Callable[[], str]) -> str:
    """What it came to: its own word, "refused" by an error of ahop or of the system, or "untyped"."""
    try:
        return work()
    except (AhopError, OSError) as failure:
        return f"refused {type(failure).__name__}"
    except Exception as failure:
        return f"untyped {type(failure).__name__}: {str(failure)[:200]}"


def looked(subject: Subject, folder: Path, numbers: range) -> str:
    """`look`, in a process that has seen nothing before."""
    ended = forks.run(lambda say: say(look(subject, folder, numbers)))
    return ended.lines[0] if ended.lines and ended.status == 0 else f"untyped end of the reader: {ended.status}"


def judge(tally: Tally, subject: Subject, folder: Path, acknowledged: int, attempted: int, trial: str) -> int | None:
    """Count what is on the disk; returns its state, None if it is none that may be there."""
    said = looked(subject, folder, range(acknowledged, attempted + 1))
    if said.isdigit():
        return int(said)
    if said == "none":
        older = looked(subject, folder, range(acknowledged))
        outcome = LOST if older.isdigit() else PHANTOM
        tally.bad(outcome, f"{trial}: {acknowledged} acknowledged, found {older}")
        return None
    tally.bad(NOT_OPENED, f"{trial}: {said}")
    if said.startswith("untyped"):
        tally.bad(UNTYPED, f"{trial}: {said}")
    return None
