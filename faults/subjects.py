"""What is written and read back: a store, a memory's file, and what a service keeps beside its files.

Each goes through numbered states: change `c` leads from state `c - 1` to state `c`. So after any fault one question is
asked: which state is on the disk? It must be the last that was acknowledged, or the next if that was on its way.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import final

import lance.optimize  # noqa: F401  (so that each child has it)
import torch
from torch import Tensor

import ahop
from ahop.errors import AhopError
from ahop.memory.load import model_to_bytes
from ahop.scale.stores import create_store, models, open_store
from ahop.service.collections.collection import Collection
from ahop.service.collections.feedback import Feedback
from ahop.service.options import Limits

DIMENSIONS = 4
FIRST_ROWS = 12
# A store does these by turns.
CHANGES = ("add", "learn", "upsert", "remove", "add", "learn", "remove", "compact")
# Pairs that a service keeps: so few that the file is written anew now and then.
PAIRS = 5

Change = Callable[[int], object]


class Subject(ABC):
    """Something durable, in numbered states."""

    name: str

    @abstractmethod
    def create(self, folder: Path) -> None:
        """State 0."""

    @abstractmethod
    def writer(self, folder: Path) -> Change:
        """Opened by a writer: a function that makes the change of a number."""

    @abstractmethod
    def is_in(self, folder: Path, numbers: Iterable[int]) -> list[int]:
        """Those of the numbers whose state is on the disk; raises if it cannot be read."""


@final
class StoreSubject(Subject):
    """A store: rows come, change and go, models take the place of others, files are joined."""

    name = "store"

    def create(self, folder: Path) -> None:
        create_store(folder / "table", _memory(0), fragment_rows=5)

    def writer(self, folder: Path) -> Change:
        store = open_store(folder / "table")

        def change(number: int) -> None:
            what = CHANGES[number % len(CHANGES)]
            if what == "add":
                store.add(_rows(_new_ids(number), number), torch.tensor(_new_ids(number)))
            elif what == "upsert":
                store.upsert(_rows([1, *_new_ids(number)], number), torch.tensor([1, *_new_ids(number)]))
            elif what == "remove":
                store.remove(torch.tensor([max(_state(number - 1)[0])]))
            elif what == "learn":
                # Every other model gets a file of its own, as large ones do.
                models.LARGEST_IN_WORDS = 0 if number % 16 < 8 else 2**15
                store.learn(_memory(number))
            else:
                store.compact(keep=timedelta(0))

        return change

    def is_in(self, folder: Path, numbers: Iterable[int]) -> list[int]:
        store = open_store(folder / "table")
        rows, model = store.rows(), model_to_bytes(store.model())
        found = dict(zip(rows.ids.tolist(), map(tuple, rows.patterns.tolist()), strict=True))
        answers = store.recall(rows.patterns, k=1).patterns[:, 0]
        if len(found) != len(rows) or not torch.equal(answers, rows.patterns):
            return []
        return [each for each in numbers if (found, model) == (_state(each)[0], _model(_state(each)[1]))]


@final
class MemorySubject(Subject):
    """A memory's file, saved again and again under one name."""

    name = "memory"

    def create(self, folder: Path) -> None:
        _memory(0).save(folder / "memory.ahop")

    def writer(self, folder: Path) -> Change:
        return lambda number: _memory(number).save(folder / "memory.ahop")

    def is_in(self, folder: Path, numbers: Iterable[int]) -> list[int]:
        memory = ahop.load(folder / "memory.ahop")
        model = model_to_bytes(memory.model)
        wanted = [each for each in numbers if model == _model(each)]
        return [each for each in wanted if torch.equal(memory.patterns, _memory(each).patterns)]


@final
class PairsSubject(Subject):
    """The pairs that people gave to a service: one more with each change, the newest are kept."""

    name = "pairs"

    def create(self, folder: Path) -> None:
        """Nothing is there before the first pair."""

    def writer(self, folder: Path) -> Change:
        log = self._log(folder)
        return lambda number: log.add(_rows([number], number), [number], None)

    def is_in(self, folder: Path, numbers: Iterable[int]) -> list[int]:
        queries, ids, *_ = self._log(folder).pairs()
        found = list(zip(ids, queries.tolist(), strict=True))
        return [each for each in numbers if found == self._state(each)]

    def _log(self, folder: Path) -> Feedback:
        return Feedback(folder / "memory.ahop.service", DIMENSIONS, Limits(pairs=PAIRS))

    def _state(self, number: int) -> list[tuple[int, list[float]]]:
        kept = range(max(1, number - PAIRS + 1), number + 1)
        return [(each, _rows([each], each)[0].tolist()) for each in kept]


@final
class ModelsSubject(Subject):
    """The models that a service learned for a memory's file, the newest in use."""

    name = "models"

    def create(self, folder: Path) -> None:
        _memory(0).save(folder / "memory.ahop")

    def writer(self, folder: Path) -> Change:
        collection = Collection("memory", folder / "memory.ahop")
        return lambda number: collection.learn(_memory(number).model)

    def is_in(self, folder: Path, numbers: Iterable[int]) -> list[int]:
        model = model_to_bytes(Collection("memory", folder / "memory.ahop").snapshot.memory.model)
        return [each for each in numbers if model == _model(each)]


SUBJECTS: tuple[Subject, ...] = (StoreSubject(), MemorySubject(), PairsSubject(), ModelsSubject())


def in_turn(number: int) -> Subject:
    """The subject of a chunk: every other is a store, which has the most to lose."""
    store, *others = SUBJECTS
    return others[number // 2 % len(others)] if number % 2 else store


def look(subject: Subject, folder: Path, numbers: Iterable[int]) -> str:
    """What is on the disk: the first of the numbers, "none" of them, or an error, "refused" or "untyped"."""
    try:
        found = subject.is_in(folder, numbers)
    except AhopError as error:
        return f"refused {type(error).__name__}: {str(error)[:200]}"
    except Exception as error:
        return f"untyped {type(error).__name__}: {str(error)[:200]}"
    return str(found[-1]) if found else "none"


def _state(number: int) -> "State":
    """The rows of a store by their ids, and the number of its model."""
    while len(_STATES) <= number:
        _STATES.append(_after(_STATES[-1], len(_STATES)))
    return _STATES[number]


def _after(before: "State", number: int) -> "State":
    rows, model = before
    what = CHANGES[number % len(CHANGES)]
    if what == "remove":
        return {each: row for each, row in rows.items() if each != max(rows)}, model
    if what in ("add", "upsert"):
        ids = _new_ids(number) if what == "add" else [1, *_new_ids(number)]
        return rows | dict(zip(ids, map(tuple, _rows(ids, number).tolist()), strict=True)), model
    return rows, number if what == "learn" else model


def _new_ids(number: int) -> list[int]:
    return [2 * number + 100, 2 * number + 101]


def _rows(ids: list[int], number: int) -> Tensor:
    return torch.tensor([[each / 8, number / 4, (each * number) % 7, 1.0] for each in ids])


@cache
def _memory(number: int) -> ahop.AssociativeMemory:
    rows = _rows(list(range(FIRST_ROWS)), number)
    return ahop.AssociativeMemory(rows, ahop.EuclideanSimilarity(), ahop.Softmax(beta=1.0 + number))


@cache
def _model(number: int) -> bytes:
    return model_to_bytes(_memory(number).model)


State = tuple[dict[int, tuple[float, ...]], int]
_STATES: list[State] = [(dict(enumerate(map(tuple, _memory(0).patterns.tolist()))), 0)]
