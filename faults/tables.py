"""The plain model of a store: a dict of rows for each version, and the changes that lead from one to the next."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from ahop.memory.memory import AssociativeMemory
from ahop.scale.stores import Store, open_store
from faults.models import MODELS

# What is known of each row, of each kind that a store keeps, and what the entries are: hard ones among them.
COLUMNS: dict[str, tuple[Any, ...]] = {
    "word": ("a", None, "", "Ä'\"\\;--", "🜁 b", "None", "a"),
    "count": (0, 1, None, -1, 2**53 + 1, 7, 2**63 - 1, 3),
    "share": (0.5, None, -0.0, 1e300, 0.1, 2.0),
    "is_new": (True, False, None),
}
# Explicit numbers, the usual ones more often than the last that there is.
IDS = (*range(24), 2**31, 2**53 + 1, 40, 41, 42, 43, 2**63 - 2, 2**63 - 1)
NAMES = ("left", "right", "über", "x 1", "5", "z")
KEEPS: dict[str, Any] = {"now": timedelta(0), "a week": timedelta(days=7), "an hour": timedelta(hours=1)}

Marks = tuple[Any, ...]
Entry = tuple[tuple[float, ...], Marks]


@dataclass(frozen=True)
class State:
    """What a version of a table holds.

    Attributes:
        rows: by their numbers: the bits of the pattern as a tuple, and what is known of it.
        model: the name of the model.
    """

    rows: Mapping[int, Entry]
    model: str

    def patterns(self) -> Tensor:
        return torch.tensor([list(pattern) for pattern, _ in self.rows.values()], dtype=torch.float32)

    def passing(self, where: Mapping[str, Any] | None) -> list[int] | None:
        """The places of the rows that a filter lets through."""
        if where is None:
            return None
        return [place for place, (number, entry) in enumerate(self.rows.items()) if _passes(number, entry[1], where)]


def after(state: State, words: Mapping[str, Any], numbers: list[int]) -> State:
    """The state that a change leads to, which was made with these numbers."""
    kind = words["kind"]
    if kind in ("add", "upsert"):
        new = {
            number: (as_stored(row), marks_of(mark))
            for number, row, mark in zip(numbers, words["rows"], words["marks"], strict=True)
        }
        return replace(state, rows={**state.rows, **new})
    if kind == "remove":
        return replace(state, rows={number: entry for number, entry in state.rows.items() if number not in numbers})
    return replace(state, model=words["model"]) if kind == "learn" else state


def changed(store: Store, words: Mapping[str, Any]) -> list[int]:
    """Make a change to a real store; returns the numbers of the rows that it was about."""
    kind, ids = words["kind"], words.get("ids")
    given = None if ids is None else torch.tensor(ids, dtype=torch.long)
    if kind == "add":
        return store.add(
            framed(words["rows"], store.columns, store.dimensions), given, metadata_of(words["marks"])
        ).tolist()
    if kind == "upsert":
        assert given is not None
        store.upsert(framed(words["rows"], store.columns, store.dimensions), given, metadata_of(words["marks"]))
    elif kind == "remove":
        assert given is not None
        store.remove(given)
    elif kind == "learn":
        store.learn(
            AssociativeMemory(torch.zeros(1, store.dimensions), model=MODELS[words["model"]](store.dimensions, 1))
        )
    elif kind == "compact":
        store.compact(keep=KEEPS[words["keep"]], fragment_rows=words["fragment_rows"])
    elif kind == "restore":
        store.restore(words["version"])
    return list(ids or [])


def changed_at(words: Mapping[str, Any]) -> list[int]:
    """The same by who opens the folder first."""
    return changed(open_store(Path(words["path"])), words)


def found_in(store: Store) -> dict[int, Entry]:
    """What a handle reads."""
    rows = store.rows()
    columns = [list(rows.metadata[name]) for name in COLUMNS]
    marks = zip(*columns, strict=True)
    return {
        number: (tuple(pattern.tolist()), tuple(_plain(each) for each in known))
        for number, pattern, known in zip(rows.ids.tolist(), rows.patterns, marks, strict=True)
    }


def is_same(found: Mapping[int, Entry], wanted: Mapping[int, Entry]) -> bool:
    """Whether both hold the same; NaN is NaN, and a number is the same number whatever its kind."""
    return found.keys() == wanted.keys() and all(
        _key(found[number][0]) == _key(entry[0]) and _key(found[number][1]) == _key(entry[1])
        for number, entry in wanted.items()
    )


def as_stored(row: list[float]) -> tuple[float, ...]:
    edge = float(np.finfo(np.float32).max)
    return tuple(float(np.float32(min(max(each, -edge), edge))) if each == each else math.nan for each in row)


def framed(rows: list[list[float]], names: tuple[str, ...] | None, dimensions: int) -> Any:
    """Rows as a frame, its columns in another order, where the dimensions have names."""
    numbers = np.array(rows, dtype=np.float64).reshape(len(rows), dimensions)
    if names is None:
        return numbers
    return pd.DataFrame(numbers, columns=list(names))[list(reversed(names))]


def marks_of(mark: int) -> Marks:
    return tuple(entries[mark % len(entries)] for entries in COLUMNS.values())


def metadata_of(marks: list[int]) -> dict[str, list[Any]]:
    return {name: [entries[mark % len(entries)] for mark in marks] for name, entries in COLUMNS.items()}


def _passes(number: int, marks: Marks, where: Mapping[str, Any]) -> bool:
    known = {"id": number, **dict(zip(COLUMNS, marks, strict=True))}
    return all(known[name] in (wanted if isinstance(wanted, list) else [wanted]) for name, wanted in where.items())


def _key(values: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(
        None if each is None or each != each else (type(each) is bool, type(each) is str, each) for each in values
    )


def _plain(value: Any) -> Any:
    """As Python has it; a whole number may come as a float where others have none."""
    return value.item() if isinstance(value, np.generic) else value
