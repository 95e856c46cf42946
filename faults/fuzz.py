"""S1: inputs that are almost right are read, by millions: each ends in an answer or an error of ahop, and soon.

A chunk is one format, in a process of its own that begins again after an input that ends it.
"""

import mmap
import random
import resource
import time
from functools import partial
from pathlib import Path

from ahop.errors import AhopError
from faults import forks
from faults.campaign import CRASHES, HANGS, OVER_MEMORY, UNTYPED, Campaign, Tally
from faults.formats import Format, formats

FORMATS = 13
LONGEST_SECONDS = 1.0
ROOM_BYTES = 64 * 2**20


def chunk(number: int, folder: Path) -> Tally:
    tally, first = Tally(), 0
    at = mmap.mmap(-1, 8)  # the input that is being read, for when it is the last
    while True:
        ended = forks.Child(partial(_read_many, number, first, at, folder)).wait(1200)
        for line in ended.lines:
            what, _, words = line.partition(" ")
            if what == "trials":
                tally.trials += int(words)
            elif what in ("accepted", "refused"):
                tally.counts[what] += int(words)
            elif what in ("seconds", "growth_mb"):
                tally.most(what, float(words))
            else:
                tally.bad(what, f"chunk {number}, {words}")
        if ended.status == 0:
            return tally
        place = int.from_bytes(at[:], "little")
        tally.bad(HANGS if ended.status is None else CRASHES, f"chunk {number}, input {place}: {ended.status}")
        tally.trials += place - first + 1
        first = place + 1


def _read_many(number: int, first: int, at: mmap.mmap, folder: Path, say: forks.Say) -> None:
    chosen = formats(folder)[number % FORMATS]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    largest = slowest = accepted = 0.0
    for place in range(first, chosen.inputs):
        at[:] = place.to_bytes(8, "little")
        content = chosen.make(random.Random(f"{number} {place}"))
        largest = max(largest, len(content))
        started = time.process_time()
        accepted += _read(chosen, content, place, say)
        seconds = time.process_time() - started
        slowest = max(slowest, seconds)
        if seconds > LONGEST_SECONDS:
            say(f"{HANGS} {chosen.name}, input {place}: {seconds:.1f} s")
    count = chosen.inputs - first
    growth = 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
    if growth > 2 * largest + ROOM_BYTES:
        say(f"{OVER_MEMORY} {chosen.name}: {growth / 2**20:.0f} MB")
    for words in (f"trials {count}", f"accepted {accepted:.0f}", f"refused {count - accepted:.0f}"):
        say(words)
    say(f"seconds {slowest:.3f}")
    say(f"growth_mb {growth / 2**20:.1f}")


def _read(chosen: Format, content: bytes, place: int, say: forks.Say) -> bool:
    """Whether it is taken for a right one."""
    try:
        chosen.read(content)
    except AhopError:
        return False
    except Exception as error:
        say(f"{UNTYPED} {chosen.name}, input {place}: {type(error).__name__}: {str(error)[:100]!r}")
        return False
    return True


CAMPAIGN = Campaign(
    id="S1",
    name="fuzz",
    goal="inputs that are almost right end in an answer or an error of ahop, within 1 s, in twice their size and 64 MB",
    counted=(UNTYPED, CRASHES, HANGS, OVER_MEMORY),
    wanted=10_000_000,
    quick=6_000,
    chunk=chunk,
)
