"""D4: each step of each kind of change fails: no space, a disk error, a folder that only reads, half a write."""

import errno
from pathlib import Path

from faults import forks
from faults.campaign import HANGS, UNTYPED, Campaign, Tally
from faults.commits import COMMITS, Bench
from faults.shim import Fault, arm
from faults.verdict import COUNTED, attempted

KINDS = (
    ("no space, once", Fault.ERROR_ONCE, errno.ENOSPC),
    ("no space from then on", Fault.ERROR_FROM, errno.ENOSPC),
    ("disk error, once", Fault.ERROR_ONCE, errno.EIO),
    ("disk error from then on", Fault.ERROR_FROM, errno.EIO),
    ("read-only from then on", Fault.ERROR_FROM, errno.EROFS),
    ("half a write", Fault.SHORT_WRITE, 0),
)


def chunk(number: int, folder: Path) -> Tally:
    (subject, change), (words, fault, error) = COMMITS[number // len(KINDS)], KINDS[number % len(KINDS)]
    bench, tally = Bench(subject, change, folder), Tally()
    for step in range(1, bench.steps() + 1):
        where, trial = bench.fresh(), f"{subject.name}, change {change}, step {step}, {words}"
        said = _tried(bench, where, fault, step, error)
        tally.trials += 1
        tally.counts[said.split()[0]] += 1
        if said.startswith("untyped"):
            tally.bad(UNTYPED, f"{trial}: {said}")
        elif said.startswith("hung"):
            tally.bad(HANGS, trial)
        bench.judge(tally, where, said == "done", trial)
    return tally


def _tried(bench: Bench, where: Path, fault: Fault, step: int, error: int) -> str:
    """What the writer came to: "done", "refused" by an error of ahop or of the system, "untyped" or "hung"."""

    def change() -> str:
        bench.change(where)
        return "done"

    def work(say: forks.Say) -> None:
        arm(where, fault, step, error)
        say(attempted(change))

    ended = forks.run(work)
    if ended.status is None:
        return "hung"
    return ended.lines[0] if ended.lines else f"untyped end: {ended.status}"


CAMPAIGN = Campaign(
    id="D4",
    name="disk_errors",
    goal="each step of each kind of change fails; the error has a type, and the old data are whole",
    counted=(*COUNTED, HANGS),
    wanted=None,
    quick=60,
    chunk=chunk,
    chunks=len(COMMITS) * len(KINDS),
)
