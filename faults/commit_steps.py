"""D2: the writer is killed before each step of each kind of change, and another goes on."""

from pathlib import Path

from faults import forks
from faults.campaign import Campaign, Tally
from faults.commits import COMMITS, Bench
from faults.shim import Fault, arm
from faults.verdict import COUNTED, judge


def chunk(number: int, folder: Path) -> Tally:
    subject, change = COMMITS[number]
    bench, tally = Bench(subject, change, folder), Tally()
    for step in range(1, bench.steps() + 1):
        where, words = bench.fresh(), f"{subject.name}, change {change}, step {step}"

        def work(say: forks.Say, where: Path = where, step: int = step) -> None:
            arm(where, Fault.KILL, step)
            bench.change(where)

        ended = forks.run(work)
        tally.trials += 1
        tally.counts["killed"] += ended.is_killed
        if change == 0:
            # Nobody was told that it is there: it is, or it can be made.
            ended = forks.run(lambda say, where=where: None if _is_there(bench, where) else bench.change(where))
            judge(tally, subject, where, 0, 0, words)
            continue
        found = judge(tally, subject, where, change - (0 if ended.status == 0 else 1), change, words)
        if found is not None:
            forks.run(lambda say, where=where, found=found: subject.writer(where)(found + 1) and None)
            judge(tally, subject, where, found + 1, found + 1, f"{words}, then another writer")
    return tally


def _is_there(bench: Bench, where: Path) -> bool:
    try:
        return bool(bench.subject.is_in(where, [0]))
    except FileNotFoundError:
        return False


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
