"""The changes whose every step is tried: one of each kind that there is, on files that were made once."""

import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

from faults import forks
from faults.campaign import Tally
from faults.shim import Fault, arm, steps_taken
from faults.subjects import SUBJECTS, Subject
from faults.verdict import judge

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

    def judge(self, tally: Tally, folder: Path, is_acknowledged: bool, words: str) -> None:
        """Count what a fault left, and whether another writer can go on from there."""
        if self.number == 0:
            if not is_acknowledged:
                forks.run(partial(self._create_again, folder))
            judge(tally, self.subject, folder, 0, 0, words)
            return
        found = judge(tally, self.subject, folder, self.number - (not is_acknowledged), self.number, words)
        if found is not None:
            forks.run(partial(self._go_on, folder, found + 1))
            judge(tally, self.subject, folder, found + 1, found + 1, f"{words}, then another writer")

    def _create_again(self, folder: Path, say: forks.Say) -> None:
        """Nobody was told that it is there: it is, or it can be made."""
        try:
            self.subject.is_in(folder, [0])
        except FileNotFoundError:
            self.subject.create(folder)

    def _go_on(self, folder: Path, number: int, say: forks.Say) -> None:
        self.subject.writer(folder)(number)

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
