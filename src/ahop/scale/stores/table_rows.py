"""Rows as Arrow tables and as tensors."""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ahop._core import optional
from ahop._core.inputs import as_queries
from ahop._core.tensors import distinct
from ahop._core.typing import Array, Patterns, RowsLike
from ahop.errors import InvalidTypeError, InvalidValueError, ShapeError, UnavailableError
from ahop.scale.stores.numbers import LARGEST

ID, PATTERN = "id", "pattern"
# Names that begin with an underscore are Lance's own: `_rowid`, `_distance`.
NAME = r"[A-Za-z][A-Za-z0-9_]*"
# Numbers that an error message names, at most.
NAMED = 5
# With it, Lance itself notices when two writers add the same number at the same time.
KEY = {b"lance-schema:unenforced-primary-key": b"true"}
# The words of Lance for a file that could not be read.
DISK_FAILED = "LanceError(IO)"


@dataclass(frozen=True)
class Rows:
    """Stored patterns.

    Attributes:
        ids: (n,) int64.
        patterns: (n, d) float32.
        metadata: the other columns by name, as numpy arrays (n,).
    """

    ids: Tensor
    patterns: Tensor
    metadata: dict[str, Any]

    def __len__(self) -> int:
        return len(self.ids)


def as_stored(patterns: RowsLike, dimensions: int, names: Sequence[str] | None) -> Patterns:
    """More patterns in float32, NaN where nothing was observed; the columns of a frame in the order of the names."""
    return as_queries(patterns, torch.empty(0, dimensions), "patterns", names).detach().contiguous()


def as_ids(ids: Array, count: int | None = None, unique: bool = True) -> Tensor:
    """Whole numbers from 0, none twice; as many as there are patterns if `count` is given."""
    try:
        tensor = torch.as_tensor(ids).cpu()
    except (RuntimeError, OverflowError, TypeError, ValueError) as error:
        raise InvalidTypeError(f"`ids` must be whole numbers from 0 to {LARGEST}: {error}.") from error
    if tensor.dtype.is_floating_point or tensor.dtype.is_complex or tensor.dtype == torch.bool:
        if tensor.numel():
            raise InvalidTypeError(
                f"`ids` must be whole numbers; got dtype {tensor.dtype}. Names belong into a column of the `metadata`."
            )
        tensor = tensor.long()
    if tensor.ndim != 1 or (count is not None and len(tensor) != count):
        wanted = "one axis" if count is None else f"shape ({count},), one for each pattern"
        raise ShapeError(f"`ids` must have {wanted}; got shape {tuple(tensor.shape)}.")
    tensor = tensor.long()
    if len(tensor) and int(tensor.min()) < 0:
        raise InvalidValueError(f"`ids` must be zero or larger, and at most {LARGEST}; got {int(tensor.min())}.")
    if unique and len(distinct(tensor)[0]) != len(tensor):
        raise InvalidValueError("`ids` must differ from one another; some are there twice.")
    return tensor


def as_id(name: str, number: object) -> Tensor:
    """The number of one pattern, (1,)."""
    if isinstance(number, bool) or not isinstance(number, Integral):
        raise InvalidTypeError(f"`{name}` must be the number of a pattern in the table; got {number!r}.")
    return as_ids(torch.tensor([int(number)]))


def schema_of(dimensions: int, columns: Mapping[str, Any], words: dict[str, str]) -> Any:
    """The columns of a new table, and the words that it carries."""
    arrow = optional.pyarrow()
    fields = [
        arrow.field(ID, arrow.int64(), nullable=False, metadata=KEY),
        arrow.field(PATTERN, arrow.list_(arrow.float32(), dimensions), nullable=False),
    ]
    for name, values in columns.items():
        if name in (ID, PATTERN) or not re.fullmatch(NAME, name):
            raise InvalidValueError(
                f"`metadata` has a column {name!r}: names are letters, digits and underscores, begin with a letter, "
                "and are not 'id' or 'pattern'. Give it another name."
            )
        fields.append(arrow.field(name, _kind(name, values)))
    return arrow.schema(fields, metadata=words)


def table_of(schema: Any, ids: Tensor, patterns: Patterns, metadata: Mapping[str, Any] | None) -> Any:
    """Rows for a table with these columns."""
    arrow = optional.pyarrow()
    columns, given = schema.names[2:], metadata or {}
    if set(given) != set(columns):
        raise InvalidValueError(
            f"`metadata` must have the columns {sorted(columns)}, as the rows before; got {sorted(given)}."
        )
    numbers = arrow.array(patterns.numpy().reshape(-1))
    arrays = [arrow.array(ids.numpy()), arrow.FixedSizeListArray.from_arrays(numbers, patterns.shape[1])]
    arrays += [_column(name, given[name], schema.field(name).type, len(ids)) for name in columns]
    return arrow.table(arrays, schema=schema)


def ids_of(table: Any) -> Tensor:
    return torch.from_numpy(np.array(table[ID].to_numpy()))


def positions_of(ids: Tensor, known: Tensor) -> Tensor:
    """Find the places of these among the known numbers."""
    ordered = known.sort()
    found = torch.searchsorted(ordered.values, ids).clamp_max(max(0, len(known) - 1))
    strange = ids[ordered.values[found] != ids] if len(known) else ids
    if len(strange):
        raise InvalidValueError(f"`ids` must be in the table; not there: {some_of(strange)}.")
    return ordered.indices[found]


def some_of(ids: Tensor) -> str:
    """Some of the numbers, for an error message."""
    shown = ", ".join(str(each) for each in ids[:NAMED].tolist())
    return shown if len(ids) <= NAMED else f"{shown} and {len(ids) - NAMED} more"


def rows_of(table: Any, dimensions: int) -> Rows:
    """A table, or a batch of one, as tensors of its own."""
    column = table[PATTERN]
    chunks = column.chunks if hasattr(column, "chunks") else [column]
    patterns = torch.empty(table.num_rows, dimensions)
    start = 0
    for chunk in chunks:
        numbers = chunk.flatten().to_numpy(zero_copy_only=False)
        patterns[start : start + len(chunk)] = torch.from_numpy(np.array(numbers).reshape(-1, dimensions))
        start += len(chunk)
    others = [name for name in table.schema.names if name not in (ID, PATTERN)]
    return Rows(ids_of(table), patterns, {name: _values(table[name]) for name in others})


def _values(column: Any) -> Any:
    """A column as numpy has it; whole numbers stay whole where others are missing, which are None."""
    if column.null_count and optional.pyarrow().types.is_integer(column.type):
        return np.array(column.to_pylist(), dtype=object)
    return column.to_numpy(zero_copy_only=False)


def batches_of(dataset: Any, rows: int, where: str | None, fragments: list[Any] | None = None) -> Iterator[Rows]:
    """Numbers and patterns, so many rows at a time, in their order."""
    dimensions = dataset.schema.field(PATTERN).type.list_size
    scanner = dataset.scanner(
        columns=[ID, PATTERN], filter=where, batch_size=rows, batch_readahead=1, fragments=fragments, scan_in_order=True
    )
    for batch in batches_read(scanner):
        for start in range(0, batch.num_rows, rows):
            yield rows_of(batch.slice(start, rows), dimensions)


def batches_read(scanner: Any) -> Iterator[Any]:
    """The batches of a scan, one after the other."""
    with _reading():
        yield from scanner.to_batches()


def table_read(scanner: Any) -> Any:
    """All that a scan finds, as one table."""
    with _reading():
        return scanner.to_table()


@contextmanager
def _reading() -> Iterator[None]:
    """A disk that fails is told from a scan that was asked for wrongly: both are invalid to Arrow."""
    try:
        yield
    except optional.pyarrow().ArrowInvalid as error:
        if DISK_FAILED not in str(error):
            raise
        raise UnavailableError(f"Stored patterns cannot be read at this moment: {error}. Try again.") from error


def _kind(name: str, values: Any) -> Any:
    arrow = optional.pyarrow()
    kind = _as_arrow(name, values, None).type
    for of_kind, stored in (
        (arrow.types.is_boolean, arrow.bool_()),
        (arrow.types.is_integer, arrow.int64()),
        (arrow.types.is_floating, arrow.float64()),
        (arrow.types.is_string, arrow.string()),
        (arrow.types.is_large_string, arrow.string()),
    ):
        if of_kind(kind):
            return stored
    raise InvalidTypeError(f"`metadata[{name!r}]` must hold words, numbers, or true and false; got {kind}.")


def _column(name: str, values: Any, kind: Any, count: int) -> Any:
    column = _as_arrow(name, values, kind)
    if len(column) != count:
        raise ShapeError(f"`metadata[{name!r}]` must have shape ({count},), one for each row; got ({len(column)},).")
    return column


def _as_arrow(name: str, values: Any, kind: Any) -> Any:
    arrow = optional.pyarrow()
    plain = values.numpy() if isinstance(values, Tensor) else values
    plain = plain.tolist() if isinstance(plain, np.ndarray) and plain.dtype.kind in "UO" else plain
    try:
        return arrow.array(plain, type=kind, from_pandas=False)
    except (arrow.ArrowException, OverflowError, TypeError, ValueError) as error:
        wanted = "one kind" if kind is None else f"the kind {kind}, as the rows before"
        raise InvalidTypeError(f"`metadata[{name!r}]` must hold values of {wanted}: {error}") from error
