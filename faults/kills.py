"""D1: writers are killed at random moments, again and again."""

import random
import time
from pathlib import Path

from faults import forks
from faults.campaign import Campaign, Tally
from faults.subjects import Subject, in_turn
from faults.verdict import COUNTED, judge

KILLS = 25  # of one chunk, on the same files
# The longest life of a writer in seconds, from when it has opened the files; one in eight is killed before that.
LIVES = {"store": 0.4, "memory": 0.05, "pairs": 0.02, "models": 0.1}


def chunk(number: int, folder: Path) -> Tally:
    subject = in_turn(number)
    chance, tally, state = random.Random(number), Tally(), 0
    forks.run(lambda say: subject.create(folder))
    for trial in range(KILLS):
        acknowledged = _killed(subject, folder, state, chance)
        found = judge(
            tally, subject, folder, acknowledged, acknowledged + 1, f"{subject.name}, chunk {number}, {trial}"
        )
        tally.trials += 1
        tally.counts["acknowledged"] += acknowledged - state
        if found is None:
            break
        state = found
    return tally


def _killed(subject: Subject, folder: Path, state: int, chance: random.Random) -> int:
    """A writer that goes on from this state, for a while; returns the last change that it acknowledged."""

    def write(say: forks.Say) -> None:
        change, number = subject.writer(folder), state
        say(state)
        while True:
            number += 1
            change(number)
            say(number)

    child = forks.Child(write)
    if chance.randrange(8):
        child.first_line()
    time.sleep(chance.uniform(0, LIVES[subject.name]))
    child.kill()
    lines = child.wait().lines
    return int(lines[-1]) if lines else state


CAMPAIGN = Campaign(
    id="D1",
    name="kills",
    goal="writers are killed at random moments; what was acknowledged is there, and nothing else",
    counted=COUNTED,
    wanted=3000,
    quick=200,
    chunk=chunk,
)
