"""D5: one bit of a file is flipped, and the file is read: the answer is as before, or an error says what is wrong.

A chunk is a process of its own, which begins again after a flip that ends it. What was compared with a checksum
before is forgotten after each flip, as if another process read the file.
"""

import random
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import torch

import ahop
from ahop.errors import AhopError
from ahop.scale.stores import create_store, integrity, open_store
from ahop.service.collections.collection import Collection
from ahop.service.collections.feedback import Feedback
from ahop.service.options import Limits
from faults import forks
from faults.campaign import CRASHES, LOST, UNTYPED, WRONG, Campaign, Tally

ROWS, DIMENSIONS, PAIRS = 60, 6, 40
# Flips of a chunk: a store takes ten times as long to open as a file.
FLIPS = {"memory": 10_000, "store": 500, "pairs": 2_000, "models": 1_000}
TURNS = ("store", "memory", "store", "memory", "store", "memory", "pairs", "models")
SAME, REFUSED = "same", "refused"

Look = Callable[[], str]


def chunk(number: int, folder: Path) -> Tally:
    what, tally = TURNS[number % len(TURNS)], Tally()
    while tally.trials < FLIPS[what]:
        where = folder / str(tally.trials)
        where.mkdir()
        ended = forks.Child(partial(_flip, what, where, number, tally.trials)).wait(3600)
        for line in ended.lines:
            outcome, _, words = line.partition(" ")
            if outcome in (SAME, REFUSED):
                tally.counts[outcome] += 1
            else:
                tally.bad(outcome, f"{what}, chunk {number}: {words}")
        tally.trials += len(ended.lines)
        tally.counts[what] += len(ended.lines)
        if ended.status != 0:
            tally.bad(CRASHES, f"{what}, chunk {number}, flip {tally.trials}: {ended.status}")
            tally.trials += 1
    return tally


def _flip(what: str, folder: Path, number: int, first: int, say: forks.Say) -> None:
    """In a child: flips, and a line for each."""
    look = LOOKS[what](folder)
    for place, (path, at, bit) in enumerate(_places(folder, random.Random(number), FLIPS[what])):
        if place < first:
            continue
        before = set(folder.rglob("*"))
        byte = path.read_bytes()[at]
        _write(path, at, byte ^ (1 << bit))
        integrity._compared.clear()
        integrity._lists.clear()
        say(f"{_outcome(look, path)} {path.relative_to(folder)}, byte {at}, bit {bit}")
        _write(path, at, byte)
        for new in sorted(set(folder.rglob("*")) - before, reverse=True):
            new.rmdir() if new.is_dir() else new.unlink()


def _write(path: Path, at: int, byte: int) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        file.write(bytes([byte]))


def _places(folder: Path, chance: random.Random, count: int) -> Iterator[tuple[Path, int, int]]:
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.stat().st_size)
    for _ in range(count):
        path = chance.choice(files)
        yield path, chance.randrange(path.stat().st_size), chance.randrange(8)


def _outcome(look: Look, path: Path) -> str:
    try:
        outcome = look()
    except AhopError:
        outcome = REFUSED
    except Exception as error:
        outcome = f"{UNTYPED} {type(error).__name__}"
    return outcome if path.exists() else LOST  # what was acknowledged is not put aside


def _fitted() -> ahop.AssociativeMemory:
    patterns = torch.randn(ROWS, DIMENSIONS, generator=torch.Generator().manual_seed(0))
    pairs = ahop.MixedVariant(0.1, 0.1, 0.1).sample(patterns, ROWS, seed=1)
    memory = ahop.fit(patterns, pairs=pairs, similarity="mixture", progress=False)
    memory.columns = tuple(f"sensor {place}" for place in range(DIMENSIONS))
    return memory


def _memory(folder: Path) -> Look:
    memory = _fitted()
    memory.save(folder / "memory.ahop")
    queries = memory.patterns[:4]
    expected = memory.recall(queries, k=3)

    def look() -> str:
        loaded = ahop.load(folder / "memory.ahop")
        is_same = torch.equal(loaded.patterns, memory.patterns) and loaded.columns == memory.columns
        return _compared(loaded.recall(queries, k=3), expected, is_same)

    return look


def _store(folder: Path) -> Look:
    memory = _fitted()
    colors = {"color": ["red", "green"] * (ROWS // 2)}
    store = create_store(folder / "table", memory, metadata=colors, fragment_rows=25)
    store.remove(torch.tensor([3, 30]))
    store.add(memory.patterns[:2] + 1, metadata={"color": ["red", "red"]})
    queries = memory.patterns[:4]
    expected, rows = store.recall(queries, k=3, where={"color": "red"}), store.rows()

    def look() -> str:
        opened = open_store(folder / "table")
        found = opened.rows()
        is_same = torch.equal(found.ids, rows.ids) and torch.equal(found.patterns, rows.patterns)
        is_same &= list(found.metadata["color"]) == list(rows.metadata["color"])
        is_same &= opened.columns == memory.columns
        return _compared(opened.recall(queries, k=3, where={"color": "red"}), expected, bool(is_same))

    return look


def _models(folder: Path) -> Look:
    memory = _fitted()
    memory.save(folder / "memory.ahop")
    collection = Collection("memory", folder / "memory.ahop")
    for beta in (1.0, 2.0):
        collection.learn(memory.model.replaced(separation=ahop.Softmax(beta)))
    queries = memory.patterns[:4]
    expected = collection.snapshot.memory.recall(queries, k=3)

    def look() -> str:
        return _compared(Collection("memory", folder / "memory.ahop").snapshot.memory.recall(queries, k=3), expected)

    return look


def _pairs(folder: Path) -> Look:
    log = Feedback(folder, DIMENSIONS, Limits())
    queries = torch.randn(PAIRS, DIMENSIONS, generator=torch.Generator().manual_seed(0))
    log.add(queries, list(range(PAIRS)), [f"phone {each}" for each in range(PAIRS)])

    def look() -> str:
        found, ids, groups, _ = Feedback(folder, DIMENSIONS, Limits()).pairs()
        # A damaged line is left out, which the log says; a damaged end of a line takes the next one with it.
        if len(ids) < PAIRS - 2 or groups != [f"phone {each}" for each in ids] or not torch.equal(found, queries[ids]):
            return WRONG
        return SAME if len(ids) == PAIRS else REFUSED

    return look


def _compared(found: ahop.Recall[torch.Tensor], expected: ahop.Recall[torch.Tensor], has_all: bool = True) -> str:
    is_same = torch.equal(found.indices, expected.indices) and torch.equal(found.posterior, expected.posterior)
    return SAME if has_all and is_same and torch.equal(found.patterns, expected.patterns) else WRONG


LOOKS: dict[str, Callable[[Path], Look]] = {"memory": _memory, "store": _store, "pairs": _pairs, "models": _models}

CAMPAIGN = Campaign(
    id="D5",
    name="flips",
    goal="one bit of any file is flipped: the answer is as before, or an error of ahop",
    counted=(WRONG, LOST, UNTYPED, CRASHES),
    wanted=1_000_000,
    quick=250,
    chunk=chunk,
)
