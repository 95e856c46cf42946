"""D3: the power is cut at a random step, and what was not flushed is lost in part or as a whole.

One writer works while the shim writes its steps down. They are played back to a disk in memory, once to the end, which
must give the real files byte for byte: so nothing went by unseen. Then for each trial to a step that chance chooses,
and what may be left is put into a folder and opened.
"""

import random
import shutil
from pathlib import Path

from faults import forks
from faults.campaign import Campaign, Tally
from faults.shim import arm, mark
from faults.steps import Disk, Step, read_steps
from faults.subjects import Subject, in_turn
from faults.verdict import COUNTED, judge

CUTS = 40  # of one chunk
# Most changes of a writer.
CHANGES = {"store": 17, "memory": 8, "pairs": 14, "models": 36}
NOT_CREATED = -1


def chunk(number: int, folder: Path) -> Tally:
    subject = in_turn(number)
    chance, tally = random.Random(number), Tally()
    steps = _written_down(subject, folder, chance.randrange(CHANGES[subject.name] + 1))
    for trial in range(CUTS):
        cut = chance.randrange(len(steps) + 1)
        acknowledged = max((int(each.path) for each in steps[:cut] if each.what == "mark"), default=NOT_CREATED)
        tally.trials += 1
        tally.counts["steps"] += cut
        if acknowledged == NOT_CREATED and subject.name != "pairs":
            continue  # nobody was told of anything
        disk = Disk(folder / "real")
        for step in steps[:cut]:
            disk.take(step)
        left = folder / "left"
        shutil.rmtree(left, ignore_errors=True)
        _materialize(left, disk.after_a_cut(chance))
        judge(
            tally,
            subject,
            left,
            max(0, acknowledged),
            acknowledged + 1,
            f"{subject.name}, chunk {number}, {trial}, step {cut}",
        )
    return tally


def _written_down(subject: Subject, folder: Path, changes: int) -> list[Step]:
    """The steps of a writer; raises if they do not lead to the files that it left."""
    real, trace = folder / "real", folder / "trace"
    real.mkdir()

    def work(say: forks.Say) -> None:
        arm(real, trace=trace)
        subject.create(real)
        mark("0")
        change = subject.writer(real)
        for number in range(1, changes + 1):
            change(number)
            mark(str(number))

    if forks.run(work).status != 0:
        raise RuntimeError(f"The writer of {subject.name} fails without any fault.")
    steps, disk = read_steps(trace), Disk(real)
    for step in steps:
        disk.take(step)
    files = {str(path.relative_to(real)): path.read_bytes() for path in real.rglob("*") if path.is_file()}
    if disk.files() != files:
        raise RuntimeError(f"The shim did not see all that the writer of {subject.name} did.")
    return steps


def _materialize(folder: Path, files: dict[str, bytes | None]) -> None:
    folder.mkdir()
    for name, content in files.items():
        if content is None:
            (folder / name).mkdir()
        else:
            (folder / name).write_bytes(content)


CAMPAIGN = Campaign(
    id="D3",
    name="power_loss",
    goal="the power is cut and what was not flushed is lost, in part or as a whole; what was acknowledged is there",
    counted=COUNTED,
    wanted=1000,
    quick=100,
    chunk=chunk,
)
