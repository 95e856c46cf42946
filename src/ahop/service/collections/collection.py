"""Collections that a service answers from: a file of a memory, or a store."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from threading import RLock
from typing import Any, Protocol, final

import numpy as np
import torch
from torch import Tensor

from ahop._core.files import digest, make_folder, replacing
from ahop.errors import ConflictError, DataNotFoundError, FileFormatError, InvalidValueError, UnsupportedError
from ahop.memory.load import load as read_memory
from ahop.memory.load import model_from_bytes, model_to_bytes
from ahop.memory.memory import AssociativeMemory
from ahop.memory.model import Model
from ahop.scale.stores.create import create_store
from ahop.scale.stores.models import over
from ahop.scale.stores.store import Store, open_store
from ahop.service.collections.batching import Cost
from ahop.service.collections.indexed import kept_index
from ahop.service.collections.snapshot import BaseSnapshot, Snapshot
from ahop.similarities import EuclideanSimilarity

# Models that are kept beside a file.
KEPT = 32
# How the folders of stores that are created here end.
ENDING = ".lance"
# What a collection may be called.
NAME = r"[A-Za-z0-9_.-]{1,100}"
# A table with more parts than this, more removed rows for each that is there, or more versions since the last time, is
# worth compacting: a table is written anew for hundreds of changes, and a change looks through few hundred files.
MOST_FRAGMENTS, MOST_TOMBSTONES, MOST_CHANGES = 256, 0.5, 1000


@dataclass(frozen=True)
class ModelVersion:
    """A version that can be answered from again."""

    number: int
    is_current: bool
    when: str | None = None


class Source(Protocol):
    """Place that keeps the state of a collection."""

    kind: str

    def snapshot(self) -> Snapshot:
        """The newest state."""

    def add(self, old: Snapshot, patterns: Tensor, ids: list[int] | None, metadata: Any) -> tuple[Snapshot, list[int]]:
        """The state with more patterns, and their numbers."""

    def remove(self, old: Snapshot, ids: list[int]) -> Snapshot: ...

    def learn(self, old: Snapshot, model: Model) -> Snapshot:
        """The state with another model, which is kept."""

    def versions(self, old: Snapshot) -> list[ModelVersion]: ...

    def activate(self, old: Snapshot, number: int) -> Snapshot:
        """The state with the model of this version; the patterns stay."""

    def restore(self, old: Snapshot, number: int) -> Snapshot:
        """The state as it was in this version, patterns and model."""

    def newest(self) -> int:
        """The version that is there by now, whoever wrote it."""

    def compact(self) -> bool:
        """Tidy up, if that is worth it; whether it was."""

    def facts(self) -> dict[str, float]:
        """Measurements of the place."""


def _in_use(number: int) -> bytes:
    """The words of a file that names a model, with their checksum."""
    return f"{number} {digest(str(number).encode())[:16]}".encode()


@final
class FileSource:
    """A file that `memory.save` wrote. It is never changed: models and indexes are kept in a folder beside it."""

    kind = "file"

    def __init__(self, path: Path, state: Path, index: bool = False) -> None:
        self._memory, self._state, self._index = read_memory(path), state, index
        self._base = digest(model_to_bytes(self._memory.model))[:16]
        self._ids = torch.arange(len(self._memory))

    def snapshot(self) -> Snapshot:
        number = self._current()
        return self._with(self._model(number), number)

    def add(self, old: Snapshot, patterns: Tensor, ids: list[int] | None, metadata: Any) -> tuple[Snapshot, list[int]]:
        raise self._refusal()

    def remove(self, old: Snapshot, ids: list[int]) -> Snapshot:
        raise self._refusal()

    def learn(self, old: Snapshot, model: Model) -> Snapshot:
        number = 1 + max(self._numbers())
        make_folder(self._state)
        with replacing(self._file(number)) as beside:
            beside.write_bytes(model_to_bytes(model))
        self._remember(number)
        for each in self._numbers()[1:-KEPT]:
            self._file(each).unlink(missing_ok=True)
            self._index_file(each).unlink(missing_ok=True)
        return self._with(model, number)

    def versions(self, old: Snapshot) -> list[ModelVersion]:
        return [ModelVersion(each, each == old.version) for each in self._numbers()]

    def activate(self, old: Snapshot, number: int) -> Snapshot:
        known = self._numbers()
        if number not in known:
            raise InvalidValueError(f"`version` must be one of {known}; got {number}.")
        found = self._with(self._model(number), number)
        make_folder(self._state)
        self._remember(number)
        return found

    def restore(self, old: Snapshot, number: int) -> Snapshot:
        raise self._refusal()

    def newest(self) -> int:
        return self._current()

    def compact(self) -> bool:
        return False

    def facts(self) -> dict[str, float]:
        return {}

    def _with(self, model: Model, number: int) -> Snapshot:
        memory = over(model, self._memory.patterns, self._memory.columns)
        memory.log_prior, memory.labels = self._memory.log_prior, self._memory.labels
        index = kept_index(memory, self._index_file(number)) if self._index else None
        return Snapshot(memory, self._ids, {}, number, index)

    def _model(self, number: int) -> Model:
        if number == 1:
            return self._memory.model
        file = self._file(number)
        return model_from_bytes(file.read_bytes(), f"`{file}`")

    def _numbers(self) -> list[int]:
        found = (path.name.split("-")[0] for path in self._state.glob(f"*-{self._base}.model"))
        return sorted({1, *(int(each) for each in found if each.isdigit())})

    def _current(self) -> int:
        path = self._state / f"current-{self._base}"
        if not path.exists():
            return 1
        words = path.read_bytes()
        number = int(words.split()[0]) if words.split()[:1] and words.split()[0].isdigit() else 0
        if words != _in_use(number) or number not in self._numbers():
            raise FileFormatError(
                f"`{path}` says which model is in use, and is damaged, or that model is gone. Restore it from a copy; "
                "without that file the memory's own model is used."
            )
        return number

    def _remember(self, number: int) -> None:
        with replacing(self._state / f"current-{self._base}") as beside:
            beside.write_bytes(_in_use(number))

    def _file(self, number: int) -> Path:
        return self._state / f"{number}-{self._base}.model"

    def _index_file(self, number: int) -> Path:
        return self._state / f"{number}-{self._base}.index"

    def _refusal(self) -> UnsupportedError:
        return UnsupportedError(
            "This collection is a file, whose patterns stay as they are. Make a store of it: "
            "`ahop.create_store(folder, ahop.load(file))`, and serve that."
        )


@final
class StoreSource:
    """A table that `create_store` made, held in memory as a whole."""

    kind = "store"

    def __init__(self, path: str) -> None:
        self._store: Store = open_store(path)
        self._compacted = self._store.version

    def snapshot(self) -> Snapshot:
        self._store.refresh()
        return self._read()

    def add(self, old: Snapshot, patterns: Tensor, ids: list[int] | None, metadata: Any) -> tuple[Snapshot, list[int]]:
        before = self._store.version
        given = None if ids is None else torch.tensor(ids, dtype=torch.long)
        numbers = self._store.add(patterns, given, metadata)
        if self._is_next(before, old):
            known = {name: column.values for name, column in old.metadata.columns.items() if name != "id"}
            columns = {name: [*values, *metadata[name]] for name, values in known.items()}
            memory = over(old.memory.model, torch.cat([old.memory.patterns, patterns]), self._store.columns)
            return Snapshot(memory, torch.cat([old.ids, numbers]), columns, self._store.version), numbers.tolist()
        return self._read(), numbers.tolist()

    def remove(self, old: Snapshot, ids: list[int]) -> Snapshot:
        before, gone = self._store.version, torch.tensor(ids, dtype=torch.long)
        self._store.remove(gone)
        if not self._is_next(before, old):
            return self._read()
        kept = ~torch.isin(old.ids, gone)
        rows = kept.nonzero().squeeze(-1).tolist()
        columns = {
            name: [column.values[row] for row in rows] for name, column in old.metadata.columns.items() if name != "id"
        }
        memory = over(old.memory.model, old.memory.patterns[kept], self._store.columns)
        return Snapshot(memory, old.ids[kept], columns, self._store.version)

    def learn(self, old: Snapshot, model: Model) -> Snapshot:
        self._store.learn(over(model, old.memory.patterns))
        return self._read()

    def versions(self, old: Snapshot) -> list[ModelVersion]:
        return [
            ModelVersion(each.number, each.number == old.version, each.when.isoformat())
            for each in self._store.versions()
        ]

    def activate(self, old: Snapshot, number: int) -> Snapshot:
        return self.learn(old, self._store.at(number).model())

    def restore(self, old: Snapshot, number: int) -> Snapshot:
        self._store.restore(number)
        return self._read()

    def newest(self) -> int:
        self._store.refresh()
        return self._store.version

    def compact(self) -> bool:
        is_due = (
            self._store.version > self._compacted + MOST_CHANGES
            or len(self._store.fragments()) > MOST_FRAGMENTS
            or self._store.tombstones() > MOST_TOMBSTONES * len(self._store)
        )
        if is_due:
            self._store.compact()
            self._compacted = self._store.version
        return is_due

    def facts(self) -> dict[str, float]:
        return {"fragments": float(len(self._store.fragments())), "tombstones": float(self._store.tombstones())}

    def _is_next(self, before: int, old: Snapshot) -> bool:
        """True if our own change is all that is new."""
        return before == old.version and self._store.version == before + 1

    def _read(self) -> Snapshot:
        rows = self._store.rows()
        columns = {name: _plain(values) for name, values in rows.metadata.items()}
        memory = over(self._store.model(), rows.patterns, self._store.columns)
        return Snapshot(memory, rows.ids, columns, self._store.version)


@final
class Collection:
    """A name, a source, and its newest state in memory. Who asks gets one state; changes make another.

    Args:
        path: a file of a memory, the folder of a store, or the address of one in an object store.
        state: where feedback and models are kept; default beside the path. None in an object store: in memory only.
        index: answer few of many patterns through an index, which is kept with the state. Files of memories have one.
    """

    def __init__(self, name: str, path: str | Path, state: Path | None = None, index: bool = False) -> None:
        self.name, self.path = name, str(path)
        is_remote = "://" in self.path
        beside = None if is_remote else Path(f"{self.path.rstrip('/')}.service")
        self.state = state or beside
        if not is_remote and not Path(self.path).exists():
            raise DataNotFoundError(f"There is no file and no folder `{self.path}` to serve.")
        is_file = not is_remote and Path(self.path).is_file()
        if index and not is_file:
            raise UnsupportedError(
                f"`{self.path}` is a store, whose patterns come and go: an index is kept of files alone. Leave `index` "
                "out, or serve the file of a memory."
            )
        self.source: Source = (
            FileSource(Path(self.path), self.state or Path("."), index) if is_file else StoreSource(self.path)
        )
        self._lock = RLock()
        self.snapshot = self.source.snapshot()
        self.cost = Cost.of(self.snapshot)
        found = self.snapshot.index
        if index and found is None:
            raise UnsupportedError(
                f"No index of `{self.path}` finds what an exact search finds, or its similarity does not say how "
                "queries are damaged. Leave `index` out, or fit a similarity that does, such as a mixture."
            )
        self.exact_cost = self.cost if found is None else Cost.of(self.snapshot, found.candidates)

    @property
    def kind(self) -> str:
        return self.source.kind

    def cost_of(self, snapshot: BaseSnapshot, k: int, same: Sequence[object] | None) -> Cost:
        """Cost of such a question, through the index or not."""
        return self.cost if snapshot.uses_index(k, same) else self.exact_cost

    def add(self, patterns: Tensor, ids: list[int] | None, metadata: Any) -> tuple[Snapshot, list[int]]:
        with self._lock:
            self.snapshot, numbers = self.source.add(self.snapshot, patterns, ids, metadata)
            return self.snapshot, numbers

    def remove(self, ids: list[int]) -> Snapshot:
        with self._lock:
            self.snapshot = self.source.remove(self.snapshot, ids)
            return self.snapshot

    def learn(self, model: Model) -> Snapshot:
        with self._lock:
            self.snapshot = self.source.learn(self.snapshot, model)
            return self.snapshot

    def activate(self, number: int) -> Snapshot:
        with self._lock:
            self.snapshot = self.source.activate(self.snapshot, number)
            return self.snapshot

    def restore(self, number: int) -> Snapshot:
        with self._lock:
            self.snapshot = self.source.restore(self.snapshot, number)
            return self.snapshot

    def follow(self) -> None:
        """See what others have written, if there is anything new."""
        with self._lock:
            if self.source.newest() != self.snapshot.version:
                self.snapshot = self.source.snapshot()

    def compact(self) -> None:
        """Tidy up, if that is worth it. The answers stay the same."""
        with self._lock:
            if self.source.compact():
                self.snapshot = self.source.snapshot()

    def refresh(self) -> Snapshot:
        with self._lock:
            self.snapshot = self.source.snapshot()
            return self.snapshot

    def versions(self) -> list[ModelVersion]:
        with self._lock:
            return self.source.versions(self.snapshot)

    def facts(self) -> dict[str, float]:
        with self._lock:
            return self.source.facts()

    def close(self) -> None:
        """Let go of what was taken."""


def created(folder: Path) -> dict[str, Path]:
    """The stores that were created in a folder, by the names of their collections."""
    return {path.name.removesuffix(ENDING): path for path in sorted(folder.glob(f"*{ENDING}"))}


def create(folder: Path, name: str, patterns: Tensor, names: Sequence[str] | None, metadata: Any) -> Collection:
    """A new store, whose model is the Euclidean distance until something is learned."""
    path = folder / f"{name}{ENDING}"
    if path.exists():
        raise ConflictError(f"There is a collection {name!r} already. Choose another name, or add patterns to it.")
    memory = AssociativeMemory(patterns, EuclideanSimilarity())
    memory.columns = None if names is None else tuple(names)
    create_store(path, memory, metadata=metadata or None)
    return Collection(name, path)


def _plain(values: Any) -> list[Any]:
    """A column of a table as Python has its values; None where there is none, or none that JSON has got."""
    return [None if isinstance(each, float) and not isfinite(each) else each for each in np.asarray(values).tolist()]
