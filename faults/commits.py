"""The changes whose every step is tried: one of each kind that there is, on files that were made once."""

import shutil
from collections.abc import Callable
from pathlib import Path

from faults import forks
from faults.shim import Fault, arm, steps_taken
from faults.subjects import SUBJECTS, Subject

# For each subject, changes that take another way each; 0 creates it. A tenth pair writes the file anew, and the 33rd
# model takes the place of the oldest.
NUMBERS = {"store": range(10), "memory": (0, 1), "pairs": (1, 2, 11), "models": (1, 2, 33)}
COMMITS: tuple[tuple[Subject, int], ...] = tuple((each, number) for each in SUBJECTS for number in NUMBERS[each.name])


class Bench:
    """A change, and the files as they are before it."""

    def __init__(self, subject: Subject, number: int, folder: Path) -> None:
        self.subject, self.number = subject, number
        self._before, self._tried = folder / "before", folder / "tried"
        self._before.mkdir()
        if number > 0:
            self._must(self._prepare)

    def fresh(self) -> Path:
        """The files before the change."""
        shutil.rmtree(self._tried, ignore_errors=True)
        shutil.copytree(self._before, self._tried, symlinks=True)
        return self._tried

    def change(self, folder: Path) -> None:
        if self.number == 0:
            self.subject.create(folder)
        else:
            self.subject.writer(folder)(self.number)

    def steps(self) -> int:
        """How many steps the change takes."""
        folder = self.fresh()

        def work(say: forks.Say) -> None:
            arm(folder, Fault.NOTHING)
            self.change(folder)
            say(steps_taken())

        return int(self._must(work))

    def _prepare(self, say: forks.Say) -> None:
        self.subject.create(self._before)
        change = self.subject.writer(self._before)
        for number in range(1, self.number):
            change(number)
        say("done")

    def _must(self, work: Callable[[forks.Say], None]) -> str:
        ended = forks.run(work)
        if ended.status != 0:
            raise RuntimeError(f"Change {self.number} of {self.subject.name} fails without any fault.")
        return ended.lines[-1]
