"""V5: a service is asked and told things for an hour: its answers stay right, and it grows no more."""

import random
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from http.client import HTTPException
from pathlib import Path
from statistics import median
from typing import Any

import torch

import ahop
from ahop.scale.stores import create_store, open_store
from ahop.service import testing
from ahop.service.testing import Running
from faults import forks
from faults.campaign import CRASHES, GROWN, LOST, PHANTOM, SERVER_ERRORS, WRONG, Campaign, Tally

# A trial is a sample; an hour has 360.
SAMPLE_SECONDS, HOUR = 10.0, 360
ROWS, DIMENSIONS, READERS = 300, 16, 3
# Between two changes; so many of them between two fits, and between two looks at the counters.
PAUSE_SECONDS, FIT_EVERY, LOOK_EVERY = 0.05, 40, 25
# By how much memory may grow after the first third of an hour; and the files that clients have open by chance.
MOST_GROWTH, CONNECTIONS = 0.05, 8


@dataclass(frozen=True)
class Sample:
    """What a process takes."""

    resident_mb: float
    threads: int
    files: int

    @classmethod
    def of(cls, process: int) -> "Sample":
        folder = Path(f"/proc/{process}")
        words = dict(line.split(":", 1) for line in (folder / "status").read_text().splitlines())
        files = len(list((folder / "fd").iterdir()))
        return cls(round(int(words["VmRSS"].split()[0]) / 1024, 1), int(words["Threads"]), files)


@dataclass
class Load:
    """Who asks and tells, and what must be answered.

    Attributes:
        rows: what is stored, by number.
        leaving: numbers that are being removed, or were: they may be answered or not.
    """

    service: Running
    rows: dict[int, list[float]]
    leaving: set[int] = field(default_factory=set)
    statuses: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)
    ends: threading.Event = field(default_factory=threading.Event)

    def ask(self, verb: str, body: dict[str, Any] | None = None) -> tuple[int, Any]:
        """Status and answer; a collection's route by its last word, or the counters."""
        path = "/metrics" if verb == "metrics" else f"/collections/soak/{verb}"
        try:
            status, said, _ = self.service.ask("GET" if body is None else "POST", path, body)
        except (OSError, HTTPException) as failure:
            status, said = 599, failure
        with self.lock:
            self.statuses[f"{verb} {status}"] += 1
            if status >= 500:
                self.wrong.append(f"{verb}: {status} {said!r:.200}")
        return status, said

    def write(self) -> None:
        chance, count = random.Random(0), 0
        while not self.ends.is_set():
            count += 1
            new = [drawn(chance) for _ in range(2)]
            status, said = self.ask("add", {"patterns": new})
            with self.lock:
                self.rows |= dict(zip(said["ids"], new, strict=True)) if status == 201 else {}
                old = chance.sample(sorted(self.rows), 2) if len(self.rows) > ROWS else []
                self.leaving |= set(old)
            if old and self.ask("delete", {"ids": old})[0] == 200:
                with self.lock:
                    for each in old:
                        del self.rows[each]
            number = chance.choice(sorted(self.rows))
            self.ask("pairs", {"queries": [[each + 0.1 for each in self.rows[number]]], "ids": [number]})
            if count % FIT_EVERY == 0:
                self.ask("fit", {"similarity": "euclidean"})
            if count % LOOK_EVERY == 0:
                self.ask("metrics")
                self.ask("watch")
            time.sleep(PAUSE_SECONDS)

    def read(self, seed: int) -> None:
        chance = random.Random(seed)
        while not self.ends.is_set():
            with self.lock:
                asked = chance.sample(sorted(self.rows.items()), 4)
            status, said = self.ask("recall", {"queries": [row for _, row in asked], "k": 3, "patterns": True})
            if status != 200:
                continue
            with self.lock:
                for (number, row), ids, patterns in zip(asked, said["ids"], said["patterns"], strict=True):
                    if number not in self.leaving and (ids[0] != number or patterns[0] != row):
                        self.wrong.append(f"recall: {number} was answered by {ids}")


def drawn(chance: random.Random) -> list[float]:
    """A row of numbers that single precision, and the digits that are sent, have exactly."""
    return [round(64 * chance.gauss(0, 1)) / 64 for _ in range(DIMENSIONS)]


def chunk(count: int, folder: Path) -> Tally:
    tally, chance = Tally(trials=count), random.Random(1)
    rows = dict(enumerate(drawn(chance) for _ in range(ROWS)))
    forks.run(lambda say: _prepare(folder, list(rows.values())))
    path = folder / "soak.lance"
    with testing.running(folder, str(path), "--watch", "200", "--review", "100") as service:
        load, samples = Load(service, rows), list[Sample]()
        threads = [threading.Thread(target=load.write)]
        threads += [threading.Thread(target=load.read, args=(seed,)) for seed in range(READERS)]
        for each in threads:
            each.start()
        while len(samples) < count and service.process.poll() is None:
            time.sleep(SAMPLE_SECONDS)
            samples.append(Sample.of(service.process.pid))
        load.ends.set()
        for each in threads:
            each.join()
        status, failures = service.end(), service.failures()
    tally.counts.update(load.statuses)
    for words in load.wrong:
        tally.bad(WRONG if words.startswith("recall: ") and "answered by" in words else SERVER_ERRORS, words)
    if failures or status != 0:
        tally.bad(CRASHES, f"ended with {status}; {failures[:1]}")
    ended = forks.run(lambda say: say(open_store(path).rows().ids.tolist()))
    there = {int(each) for each in ended.lines[0].strip("[]").split(",")}
    for outcome, numbers in ((LOST, load.rows.keys() - there), (PHANTOM, there - load.rows.keys())):
        if numbers:
            tally.bad(outcome, f"rows {sorted(numbers)[:5]}")
    _judge(tally, samples)
    return tally


def _judge(tally: Tally, samples: list[Sample]) -> None:
    """Record what the process took after a third of the time and at its end; after an hour it must be the same."""
    minute, third = max(1, len(samples) // 60), max(1, len(samples) // 3)
    before, after = samples[max(0, third - minute) : third], samples[-minute:]
    resident = [median(each.resident_mb for each in some) for some in (before, after)]
    tally.most("resident_mb_after_a_third", resident[0])
    tally.most("resident_mb_at_the_end", resident[1])
    most = {
        name: [max(getattr(each, name) for each in some) for some in (samples[third : 2 * third] or samples, after)]
        for name in ("threads", "files")
    }
    for name, values in most.items():
        tally.most(f"{name}_in_the_second_third", values[0])
        tally.most(f"{name}_at_the_end", values[1])
    if len(samples) < HOUR:
        return
    if resident[1] > (1 + MOST_GROWTH) * resident[0]:
        tally.bad(GROWN, f"resident memory from {resident[0]} to {resident[1]} MB")
    if most["threads"][1] > most["threads"][0] or most["files"][1] > most["files"][0] + CONNECTIONS:
        tally.bad(GROWN, f"{most}")


def _prepare(folder: Path, rows: list[list[float]]) -> None:
    create_store(folder / "soak.lance", ahop.AssociativeMemory(torch.tensor(rows), ahop.EuclideanSimilarity()))


CAMPAIGN = Campaign(
    id="V5",
    name="soak",
    goal="an hour of reads, writes, feedback and fits: answers are right, no row is lost, and nothing grows",
    counted=(WRONG, SERVER_ERRORS, CRASHES, LOST, PHANTOM, GROWN),
    wanted=HOUR,
    quick=2,
    chunk=chunk,
    is_whole=True,
)
