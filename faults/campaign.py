"""A campaign: trials that are made in chunks, and what each chunk came to."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

# What must not happen. A campaign counts those that can.
LOST, PHANTOM, WRONG = "acknowledged_lost", "phantom", "silently_wrong"
NOT_OPENED, UNTYPED, CRASHES, HANGS = "failed_to_open", "untyped_errors", "crashes", "hangs"
UNANSWERED, DROPPED, OPEN_ROUTES = "unanswered", "dropped", "open_routes"
SERVER_ERRORS, OVER_MEMORY, GROWN = "server_errors", "over_memory", "grown"
LEAKED, WRITTEN = "seen_by_others", "changed_by_others"


@dataclass
class Tally:
    """How many trials, and how many of them came to what."""

    trials: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    examples: list[str] = field(default_factory=list)
    largest: dict[str, float] = field(default_factory=dict)

    def bad(self, outcome: str, example: str) -> None:
        """A trial came to something that must not happen."""
        self.counts[outcome] += 1
        self.examples.append(f"{outcome}: {example}")

    def most(self, name: str, value: float) -> None:
        self.largest[name] = max(value, self.largest.get(name, value))

    def add(self, other: "Tally") -> None:
        self.trials += other.trials
        self.counts += other.counts
        self.examples = (self.examples + other.examples)[:10]
        for name, value in other.largest.items():
            self.most(name, value)


@dataclass(frozen=True)
class Campaign:
    """Trials of one goal.

    Attributes:
        id: of the goal.
        name: one word.
        goal: what must not happen, in a sentence.
        counted: what can happen here that must not.
        wanted: trials of the full form.
        quick: trials of the quick form.
        chunk: (number, an empty folder) -> what came of the trials of that chunk; the same number, the same trials.
        chunks: how many there are; None if there is no end to them.
        is_whole: a chunk has all trials, as one that is cut says nothing; it is given how many instead of a number.
    """

    id: str
    name: str
    goal: str
    counted: tuple[str, ...]
    wanted: int | None
    quick: int
    chunk: Callable[[int, Path], Tally]
    chunks: int | None = None
    is_whole: bool = False
