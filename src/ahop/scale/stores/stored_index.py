"""An index of one version of a store, cached in files."""

import os
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from hashlib import blake2b
from json import dumps
from pathlib import Path
from typing import Any, final

import numpy as np
import torch
from torch import Tensor
from typing_extensions import override

from ahop._core.component import Component
from ahop._core.files import replacing
from ahop._core.typing import Array, Entries, Queries, RowsLike
from ahop.errors import FileFormatError, InvalidValueError, ShapeError
from ahop.memory.explanation import Explanation
from ahop.memory.memory import AssociativeMemory
from ahop.memory.model import Model
from ahop.memory.reasons import is_unknown
from ahop.memory.recall import Recall
from ahop.memory.recaller import BaseRecaller
from ahop.memory.saving.description import describe
from ahop.scale.indexes.build import index
from ahop.scale.indexes.index_file import load_index, save_index
from ahop.scale.indexes.row_index import Index
from ahop.scale.stores.filters import as_filter
from ahop.scale.stores.location import Location
from ahop.scale.stores.models import over, words_of
from ahop.scale.stores.table_rows import ID, PATTERN, Rows, as_id, as_ids, ids_of, positions_of, table_read

CACHE = "_cache"


@final
class StoredIndex(BaseRecaller[Mapping[str, object]]):
    """Answers from one version of a table, by way of an index; rows are named by their numbers in the table.

    Attributes:
        index: what brings the candidates and reranks them; its rows are those of `ids`.
        ids: (n,) the number of each row.
        version: of the table.
    """

    def __init__(self, index: Index, ids: Tensor, version: int, find: Callable[[Mapping[str, object]], Tensor]) -> None:
        self.index, self.ids, self.version = index, ids, version
        self._find = find

    def __len__(self) -> int:
        return len(self.ids)

    @property
    @override
    def columns(self) -> tuple[str, ...] | None:
        return self.index.memory.columns

    @property
    @override
    def dimensions(self) -> int:
        return self.index.memory.dimensions

    def explain(self, query: RowsLike | Entries, *, against: object = None, group: object = None) -> Explanation:
        """Why this query is answered as it is, as `AssociativeMemory.explain` says.

        Args:
            query: one row, (d,) or (1, d).
            against: the number of the rival in the table, or "unknown"; default the second answer.
            group: where the query comes from, if the memory was fitted with groups.
        """
        row = against
        if against is not None and not is_unknown(against):
            row = int(positions_of(as_id("against", against), self.ids))
        found = self.index.explain(query, against=row, group=group)
        answer, rival = (int(self.ids[each]) if isinstance(each, int) else each for each in (found.answer, found.rival))
        return replace(found, answer=answer, rival=rival)

    @override
    def _recalled(
        self, queries: Queries, k: int, where: Mapping[str, object] | None, groups: Sequence[object] | None
    ) -> Recall[Tensor]:
        rows = None if where is None else positions_of(self._find(where), self.ids)
        found = self.index.recall(queries, min(k, len(self)), where=rows, groups=groups)
        return replace(found, indices=self.ids[found.indices.clamp_min(0)].masked_fill(found.indices < 0, -1))


def indexed(
    table: Any,
    location: Location,
    model: Model,
    names: tuple[str, ...] | None,
    batches: Iterable[Rows],
    pairs: tuple[Array, Array] | None,
    options: Mapping[str, Any],
    cache: str | os.PathLike[str] | None,
) -> StoredIndex:
    """The index of a table in the version that it is in; `pairs` name patterns by their numbers."""
    table = table.checkout_version(table.version)  # a handle of its own, which stays there
    ids = ids_of(table_read(table.scanner(columns=[ID], scan_in_order=True)))
    if not len(ids):
        raise ShapeError("An index holds at least one pattern, and the table has none. `add` some first.")
    by_row = None if pairs is None else (positions_of(as_ids(pairs[0], unique=False), ids), pairs[1])
    folder = None if location.folder is None else location.folder / CACHE
    built = cached_index(
        lambda memory: index(memory, by_row, **options),
        lambda patterns: over(model, patterns, names),
        batches,
        len(ids),
        table.schema.field(PATTERN).type.list_size,
        folder if cache is None else Path(cache),
        _name(table, location),
        digest_of({**options, "pairs": pairs}),
    )

    def find(where: Mapping[str, object]) -> Tensor:
        return ids_of(table_read(table.scanner(columns=[ID], filter=as_filter(where, table.schema))))

    return StoredIndex(built, ids, int(table.version), find)


def cached_index(
    build: Callable[[AssociativeMemory], Index],
    memory_of: Callable[[Tensor], AssociativeMemory],
    batches: Iterable[Rows],
    count: int,
    dimensions: int,
    folder: Path | None,
    name: str,
    key: str,
) -> Index:
    """The index that lies in the folder, if it is whole and of this version; else a new one, which is put there.

    Args:
        build: makes the index of a memory.
        memory_of: makes the memory of its patterns.
        batches: these.
        name: of the version.
        key: of how the index is built.
    """
    if folder is None:
        return build(memory_of(torch.cat([rows.patterns for rows in batches])))
    folder.mkdir(parents=True, exist_ok=True)
    patterns, path = folder / f"{name}.patterns", folder / f"{name}-{key}.index"
    shape = (count, dimensions)
    if path.exists() and patterns.exists():
        try:
            return load_index(path, memory_of(_mapped(patterns, shape)))
        except (FileFormatError, InvalidValueError, OSError) as error:
            warnings.warn(
                f"The index `{path}` is built anew, as it cannot be used: {error}", RuntimeWarning, stacklevel=4
            )
    # The patterns may be what is damaged: they come from the table again.
    _write(patterns, batches)
    built = build(memory_of(_mapped(patterns, shape)))
    save_index(built, path)
    return built


def digest_of(options: Mapping[str, object]) -> str:
    """Digest that tells one way to build an index from another."""
    found = blake2b(digest_size=8)
    for name in sorted(options):
        found.update(f"{name}=".encode())
        _feed(found, options[name])
    return found.hexdigest()


def _feed(found: Any, value: object) -> None:
    if isinstance(value, Component):
        found.update(dumps(describe(value), sort_keys=True).encode())
        for name, tensor in sorted(value.state_dict().items()):
            found.update(name.encode())
            _feed(found, tensor)
    elif isinstance(value, Tensor | np.ndarray):
        array = np.ascontiguousarray(value.detach().cpu().numpy() if isinstance(value, Tensor) else value)
        found.update(f"{array.dtype}{array.shape}".encode() + array.tobytes())
    elif isinstance(value, tuple):
        for each in value:
            _feed(found, each)
    else:
        found.update(repr(value).encode())


def _mapped(path: Path, shape: tuple[int, int]) -> Tensor:
    """The patterns, left on the disk until they are looked at. Nothing that is written to them reaches the file."""
    if path.stat().st_size != 4 * shape[0] * shape[1]:
        raise FileFormatError(f"`{path}` has another size than {shape[0]} patterns of {shape[1]} dimensions.")
    return torch.from_numpy(np.memmap(path, dtype=np.float32, mode="c", shape=shape))


def _write(path: Path, batches: Iterable[Rows]) -> None:
    with replacing(path) as beside, beside.open("wb") as file:
        for rows in batches:
            file.write(rows.patterns.numpy().tobytes())


def _name(table: Any, location: Location) -> str:
    """Name a version in the names of files. A number that was torn away may be given anew: the change tells."""
    words, change = words_of(table.schema, location), table.read_transaction(table.version)
    told = {"table": words["table"], "model": words["digest"], "change": None if change is None else change.uuid}
    return f"v{table.version}-{digest_of(told)}"
