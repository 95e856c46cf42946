"""D2: the writer is killed before each step of each kind of change, and another goes on."""

from functools import partial
from pathlib import Path

from faults import forks
from faults.campaign import Campaign, Tally
from faults.commits import COMMITS, Bench
from faults.shim import Fault, arm
from faults.verdict import COUNTED


def chunk(number: int, folder: Path) -> Tally:
    subject, change = COMMITS[number]
    bench, tally = Bench(subject, change, folder), Tally()
    for step in range(1, bench.steps() + 1):
        where = bench.fresh()
        ended = forks.run(partial(_killed, bench, where, step))
        tally.trials += 1
        tally.counts["killed"] += ended.is_killed
        bench.judge(tally, where, ended.status == 0, f"{subject.name}, change {change}, step {step}")
    return tally


def _killed(bench: Bench, where: Path, step: int, say: forks.Say) -> None:
    arm(where, Fault.KILL, step)
    bench.change(where)


CAMPAIGN = Campaign(
    id="D2",
    name="commit_steps",
    goal="writers are killed before each step of each kind of change; the next writer goes on",
    counted=COUNTED,
    wanted=None,
    quick=60,
    chunk=chunk,
    chunks=len(COMMITS),
)
