"""D4: each read fails in turn: the answer is as before, or an error says so; and nothing is harmed."""

from pathlib import Path

from faults import forks
from faults.campaign import HANGS, UNTYPED, WRONG, Campaign, Tally
from faults.commits import COMMITS, Bench
from faults.shim import Fault, arm, reads_made
from faults.verdict import COUNTED, attempted, judge

KINDS = (("disk error of a read, once", Fault.READ_ONCE), ("disk error of reads from then on", Fault.READ_FROM))


def chunk(number: int, folder: Path) -> Tally:
    (subject, state), (words, fault) = COMMITS[number // len(KINDS)], KINDS[number % len(KINDS)]
    bench, tally = Bench(subject, state + 1, folder), Tally()
    where = bench.fresh()
    reads = int(_looked(bench, where, Fault.NOTHING, 0)[1])
    for read in range(1, reads + 1):
        trial = f"{subject.name}, state {state}, read {read} of {reads}, {words}"
        said, _ = _looked(bench, where, fault, read)
        tally.trials += 1
        tally.counts[said.split()[0]] += 1
        for outcome, word in ((WRONG, "wrong"), (UNTYPED, "untyped"), (HANGS, "hung")):
            if said.startswith(word):
                tally.bad(outcome, f"{trial}: {said}")
        judge(tally, subject, where, state, state, f"{trial}, and then without")
    return tally


def _looked(bench: Bench, where: Path, fault: Fault, read: int) -> tuple[str, str]:
    """What a reader came to ("same", "wrong", "refused", "untyped", "hung"), and how many reads it made."""
    state = bench.number - 1

    def work(say: forks.Say) -> None:
        arm(where, fault, read)
        say(attempted(lambda: "same" if bench.subject.is_in(where, [state]) else "wrong"))
        say(reads_made())

    ended = forks.run(work)
    if ended.status is None:
        return "hung", "0"
    said, reads = ended.lines if len(ended.lines) == 2 else (f"untyped end: {ended.status}", "0")
    return said, reads


CAMPAIGN = Campaign(
    id="D4",
    name="read_errors",
    goal="each read fails in turn; the answer is as before or an error with a type, and the data stay whole",
    counted=(*COUNTED, WRONG, HANGS),
    wanted=None,
    quick=60,
    chunk=chunk,
    chunks=len(COMMITS) * len(KINDS),
)
