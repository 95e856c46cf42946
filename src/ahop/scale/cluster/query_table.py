"""Tables of queries, split into numbered blocks in a fixed order."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from ahop._core import optional
from ahop._core.checks import check_count
from ahop.errors import DataNotFoundError, FileFormatError, InvalidTypeError, ShapeError
from ahop.scale.stores.location import Address, Location


@dataclass(frozen=True)
class Block:
    """Some rows of one file: the `start`-th to the one before the `stop`-th of one of its groups of rows.

    Attributes:
        number: its place among all blocks.
        first: the number of its first row in the whole table.
    """

    number: int
    file: str
    group: int
    start: int
    stop: int
    first: int

    def __len__(self) -> int:
        return self.stop - self.start


@final
class QueryTable:
    """Queries in Parquet files or in a Lance table.

    Args:
        path: a file, a folder of files, or a Lance table, whose version is then fixed.
        columns: those with the numbers of a query: one of lists, or one for each dimension. If None, the only one of
            lists; if there is none, all that hold numbers but the one with the names.
        id_column: what names a query; if the table has no such column, the row does.
    """

    def __init__(
        self, path: Address, columns: Sequence[str] | None = None, id_column: str = "id", version: int | None = None
    ) -> None:
        self.location, self.id_column = Location.of(path), id_column
        self.is_lance = self.location.folder is None or (self.location.folder / "_versions").is_dir()
        self._lance = _open_lance(self.location, version) if self.is_lance else None
        self.version = None if self._lance is None else int(self._lance.version)
        self.files = [] if self.is_lance else _files(self.location)
        schema = self._lance.schema if self._lance is not None else _parquet(self.files[0]).schema_arrow
        self.has_ids = id_column in schema.names
        self.columns = list(columns) if columns is not None else _query_columns(schema, id_column)
        missing = [name for name in self.columns if name not in schema.names]
        if missing or not self.columns:
            raise InvalidTypeError(f"`columns` must be columns of `{path}`, which has {schema.names}; got {columns}.")

    def blocks(self, rows: int) -> list[Block]:
        """All rows in blocks of at most so many, none of which crosses a group of rows of a file."""
        check_count("batch_size", rows)
        groups = [(file, group, count) for file in self.files for group, count in enumerate(_group_sizes(file))]
        if self._lance is not None:
            groups = [(self.location.address, 0, int(self._lance.count_rows()))]
        blocks: list[Block] = []
        first = 0
        for file, group, count in groups:
            for start in range(0, count, rows):
                stop = min(start + rows, count)
                blocks.append(Block(len(blocks), file, group, start, stop, first + start))
            first += count
        return blocks

    def sizes(self) -> list[int]:
        """Sizes of the files, which tell whether they are the same as before; a Lance table has a version for this."""
        return [Path(file).stat().st_size for file in self.files]

    def read(self, block: Block) -> tuple[Any, NDArray[np.float32]]:
        """The names of the queries as a column, and their numbers; NaN where there is none."""
        arrow = optional.pyarrow()
        wanted = [*([self.id_column] if self.has_ids else []), *self.columns]
        if self._lance is not None:
            table = self._lance.to_table(columns=wanted, offset=block.start, limit=len(block))
        else:
            table = _group(block.file, block.group, tuple(wanted)).slice(block.start, len(block))
        names = table[self.id_column] if self.has_ids else arrow.array(np.arange(len(block)) + block.first)
        if len(self.columns) == 1 and _is_list(table.schema.field(self.columns[0]).type):
            return names, _from_lists(table[self.columns[0]])
        numbers = [_numbers(table[name].combine_chunks()) for name in self.columns]
        return names, np.stack(numbers, axis=1)


def _files(location: Location) -> list[str]:
    found = location.folder
    assert found is not None
    files = sorted(found.glob("**/*.parquet")) if found.is_dir() else [found]
    if not files or not files[0].exists():
        raise DataNotFoundError(f"`{found}` holds no queries: no file that ends in .parquet, and no Lance table.")
    return [str(file) for file in files]


def _open_lance(location: Location, version: int | None) -> Any:
    try:
        return optional.lance().dataset(location.address, version=version, storage_options=location.options)
    except (OSError, ValueError) as error:
        raise DataNotFoundError(f"`{location.address}` holds no table that can be opened: {error}.") from error


def _parquet(file: str) -> Any:
    arrow = optional.pyarrow()
    try:
        return optional.parquet().ParquetFile(file)
    except (arrow.ArrowInvalid, OSError) as error:
        raise FileFormatError(f"`{file}` is no Parquet file that can be read: {error}") from error


def _group_sizes(file: str) -> list[int]:
    facts = _parquet(file).metadata
    return [facts.row_group(number).num_rows for number in range(facts.num_row_groups)]


@lru_cache(4)  # blocks of one group follow one another
def _group(file: str, group: int, columns: tuple[str, ...]) -> Any:
    return _parquet(file).read_row_group(group, columns=list(columns))


def _query_columns(schema: Any, id_column: str) -> list[str]:
    lists = [field.name for field in schema if _is_list(field.type)]
    if len(lists) > 1:
        raise InvalidTypeError(
            f"The table has several columns of lists, {lists}: name the one of queries by `columns`."
        )
    types = optional.pyarrow().types
    numbers = [
        field.name
        for field in schema
        if (types.is_floating(field.type) or types.is_integer(field.type)) and field.name != id_column
    ]
    return lists or numbers


def _is_list(kind: Any) -> bool:
    types = optional.pyarrow().types
    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def _from_lists(column: Any) -> NDArray[np.float32]:
    """Lists of one length as a matrix; a list that is not there has no number that was observed."""
    chunks = [chunk.drop_null() for chunk in column.chunks]
    if optional.pyarrow().types.is_fixed_size_list(column.type):
        lengths = {int(column.type.list_size)}
    else:
        lengths = {int(each) for chunk in chunks for each in np.unique(np.diff(chunk.offsets))}
    if len(lengths) > 1:
        raise ShapeError(f"The queries must be lists of one length; got lengths {sorted(lengths)}.")
    width = max(lengths, default=0)
    matrix = np.full((len(column), width), np.nan, dtype=np.float32)
    if width:
        parts = [_numbers(chunk.flatten()).reshape(-1, width) for chunk in chunks]
        matrix[np.asarray(column.is_valid())] = np.concatenate(parts)
    return matrix


def _numbers(values: Any) -> NDArray[np.float32]:
    """A column of numbers; NaN where there is none, and what is too large for the type held at its edge."""
    wide: NDArray[np.float64] = values.to_numpy(zero_copy_only=False).astype(np.float64)
    edge = float(np.finfo(np.float32).max)
    return np.where(np.isinf(wide), wide, np.clip(wide, -edge, edge)).astype(np.float32)
