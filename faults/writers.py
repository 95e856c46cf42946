"""D7: several write the same rows at the same time, on a disk and in an object store, while others read."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import torch

import ahop
from ahop.errors import AhopError
from ahop.scale.stores import create_store, open_store
from faults import forks
from faults.campaign import CRASHES, LOST, PHANTOM, WRONG, Campaign, Tally
from faults.objects import server

DIMENSIONS, SHARED = 4, 10
WRITERS, READERS, STEPS, READS = 3, 2, 5, 25
# Each step adds one row of this number and more, which only one writer can have added.
ADDED, PATIENCE = 100, 300.0

Place = tuple[str, dict[str, str] | None]


@contextmanager
def place(number: int, folder: Path) -> Iterator[Place]:
    """By turns a folder, where writers wait for each other, and an object store, where they do not."""
    if number % 2:
        yield str(folder / "rows.lance"), None
        return
    with server("shelf") as options:
        yield "s3://shelf/rows.lance", options


def chunk(number: int, folder: Path) -> Tally:
    tally = Tally()
    with place(number, folder) as where:
        forks.run(lambda say: _create(where))
        writers = [forks.Child(partial(_write, where, mark)) for mark in range(1, WRITERS + 1)]
        readers = [forks.Child(lambda say: _read(where, say)) for _ in range(READERS)]
        written, read = ([each.wait(PATIENCE) for each in some] for some in (writers, readers))
        last = forks.run(lambda say: say(json.dumps(_rows(where))))
    for each in [*written, *read, last]:
        if each.status != 0:
            tally.bad(CRASHES, f"chunk {number}: a process ended with {each.status} after {each.lines[-1:]}")
    for line in (line for each in read for line in each.lines):
        tally.trials += 1
        if line != "whole":
            tally.bad(WRONG, f"chunk {number}: a reader saw {line}"[:300])
    steps = [line.split() for each in written for line in each.lines]
    tally.trials += len(steps)
    tally.counts["acknowledged"] += sum(word != "refused" for word, *_ in steps)
    tally.counts["refused"] += sum(word == "refused" for word, *_ in steps)
    if last.lines:
        _judge(tally, number, steps, json.loads(last.lines[0]))
    return tally


def _judge(tally: Tally, number: int, steps: list[list[str]], rows: list[list[float]]) -> None:
    """What is there at the end: the last change of some writer, and each row that was added, once."""
    if problem := _problem(rows):
        tally.bad(WRONG, f"chunk {number}: at the end {problem}")
    winners = [(int(row), float(mark)) for word, row, mark in steps if word == "added"]
    if len({row for row, _ in winners}) != len(winners):
        tally.bad(PHANTOM, f"chunk {number}: two were told that they added the same row: {winners}")
    there = {(int(row), mark) for row, mark in rows if row >= ADDED}
    if lost := set(winners) - there:
        tally.bad(LOST, f"chunk {number}: {sorted(lost)} are not among {sorted(there)}")
    if more := there - set(winners):
        tally.bad(PHANTOM, f"chunk {number}: nobody added {sorted(more)}")
    changed: dict[int, float] = {}
    for word, _, mark in steps:
        if word == "changed":
            changed[int(float(mark))] = float(mark)  # the last of each writer
    if changed and rows and rows[0][1] not in changed.values():
        tally.bad(LOST, f"chunk {number}: {rows[0][1]} is the last change of none of {sorted(changed.values())}")


def _problem(rows: list[list[float]]) -> str | None:
    """Rows that are changed together must be alike, and each must be there once."""
    numbers, marks = [row for row, _ in rows], {mark for row, mark in rows if row < SHARED}
    if len(set(numbers)) != len(numbers) or set(range(SHARED)) - set(numbers):
        return f"the rows {numbers}"
    return None if len(marks) == 1 else f"halves of changes: {sorted(marks)}"


def _create(where: Place) -> None:
    memory = ahop.AssociativeMemory(torch.zeros(SHARED, DIMENSIONS), ahop.EuclideanSimilarity())
    create_store(where[0], memory, storage_options=where[1])


def _write(where: Place, writer: int, say: forks.Say) -> None:
    store = open_store(where[0], storage_options=where[1])
    for step in range(STEPS):
        mark = writer + (step + 1) / 16  # exact in single precision
        try:
            store.upsert(torch.full((SHARED, DIMENSIONS), mark), torch.arange(SHARED))
            say(f"changed 0 {mark}")
        except AhopError as error:
            say(f"refused 0 {type(error).__name__}")
        try:
            store.add(torch.full((1, DIMENSIONS), mark), torch.tensor([ADDED + step]))
            say(f"added {ADDED + step} {mark}")
        except AhopError as error:
            say(f"refused {ADDED + step} {type(error).__name__}")


def _read(where: Place, say: forks.Say) -> None:
    for _ in range(READS):
        say(_problem(_rows(where)) or "whole")


def _rows(where: Place) -> list[list[float]]:
    """Number and mark of each row, in their order."""
    rows = open_store(where[0], storage_options=where[1]).rows()
    return sorted([float(row), mark] for row, mark in zip(rows.ids.tolist(), rows.patterns[:, 0].tolist(), strict=True))


CAMPAIGN = Campaign(
    id="D7",
    name="writers",
    goal="several write the same rows at a time, on a disk and in an object store; readers see whole changes",
    counted=(WRONG, LOST, PHANTOM, CRASHES),
    wanted=10_000,
    quick=100,
    chunk=chunk,
)
