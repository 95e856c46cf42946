"""Rows of numbers of any kind as numpy arrays. Torch is not needed."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ahop._core.arrays import is_tensor, to_numpy
from ahop._core.columns import check_errors, coded, words_of
from ahop._core.frames import is_column, is_frame, names_of, numbers_of, numbers_of_column, text_of
from ahop._core.words import did_you_mean, told
from ahop.errors import InvalidTypeError, InvalidValueError, ShapeError

# Kinds of numpy's dtypes that are real numbers.
REAL = "fiub"
# Share of a column's range that rounding may move a value by: noise is seldom less than a hundredth.
LARGEST_ROUNDING = 1e-4
# Arguments that are rows of numbers, with NaN for what was not observed.
ROWS_OF_NUMBERS = ("patterns", "queries", "copies", "values", "right")


def read_rows(
    name: str, value: Any, columns: Sequence[str] | None = None, narrow: DTypeLike = np.float32
) -> NDArray[Any]:
    """Read an array, a frame or a list of lists; NaN where nothing was observed.

    Args:
        columns: the order of the columns of a frame.
        narrow: dtype of a frame that has no column of double precision.
    """
    if is_frame(value):
        value = numbers_of(value, name, columns, narrow)
    elif isinstance(value, list | tuple):
        named = bool(value) and all(isinstance(each, Mapping) for each in value)
        value = _from_mappings(name, value, columns) if named else _from_lists(name, value)
    if not isinstance(value, np.ndarray):
        raise InvalidTypeError(
            f"`{name}` must be a numpy array, a torch tensor, a frame or a list of lists; got {type(value).__name__}. "
            f"{_hint(name, value)}"
        )
    return as_real(name, value)


def as_real(name: str, value: Any) -> NDArray[Any]:
    """Real numbers in the byte order of this machine, contiguous and writable; the same memory where that is so."""
    given = np.asarray(_unmasked(name, value))
    if given.dtype.kind not in REAL:
        raise InvalidTypeError(f"`{name}` must hold real numbers; got dtype {given.dtype}.")
    native = np.float64 if given.dtype == np.longdouble else given.dtype.newbyteorder("=")
    return np.require(given, native, ["C", "W"])


def read_queries(
    queries: Any, width: int, columns: Sequence[str] | None = None, name: str = "queries"
) -> NDArray[np.float32]:
    """Queries (b, d) in single precision, for patterns of `width` dimensions with these names."""
    check_named(name, queries, columns)
    rows = as_real(name, to_numpy(queries)) if is_tensor(queries) else read_rows(name, queries, columns)
    check_axes(name, rows.shape)
    check_finite_rows(name, not np.isinf(rows).any())
    check_width(name, rows.shape, width)
    largest = np.finfo(np.float32).max
    found: NDArray[np.float32] = np.clip(rows, -largest, largest).astype(np.float32)
    return found


def in_single_precision(rows: NDArray[Any]) -> NDArray[np.float32] | None:
    """Rows (n, d) rounded; None where a value would move by much of what its column varies by."""
    largest = np.finfo(np.float32).max
    found: NDArray[np.float32] = np.clip(rows, -largest, largest).astype(np.float32)
    if rows.dtype != np.float64 or not len(rows):
        return found
    seen = ~np.isnan(rows)
    low, high = np.where(seen, rows, np.inf).min(0), np.where(seen, rows, -np.inf).max(0)
    moved = np.where(seen, np.abs(rows - found), 0).max(0)
    is_told_apart = (moved <= LARGEST_ROUNDING * (high - low)) | (high <= low)
    return found if is_told_apart.all() else None


def as_matrix_of_one(query: Any) -> Any:
    """One query as rows: a row of its own, by names or not, a matrix or frame of one row, or a row of a frame."""
    if hasattr(query, "to_frame"):
        return query.to_frame().T
    if isinstance(query, Mapping):
        return [query]
    if is_frame(query) or (isinstance(query, list) and query and isinstance(query[0], Mapping)):
        return query
    rows = query if is_tensor(query) else np.asarray(query, dtype=np.float64)
    return rows[None] if rows.ndim == 1 else rows


def check_single(count: int) -> None:
    if count != 1:
        raise ShapeError(f"`query` must be one row; got {count}. Explain one query at a time.")


def check_named(name: str, rows: object, columns: Sequence[str] | None) -> None:
    """Refuse names of columns where the stored patterns have none."""
    if columns is None and names_of(rows, name) is not None:
        raise InvalidTypeError(
            f"`{name}` has names for its columns, and there are none here to put them in order by. Store a frame with "
            f"such names, or pass `{name}.to_numpy()` if the order is that of the stored patterns."
        )


def check_axes(name: str, shape: Sequence[int]) -> None:
    if len(shape) != 2:
        single = f"{name.removesuffix('ies')}y" if name.endswith("ies") else name.removesuffix("s")
        hint = f" For a single {single} pass `{single}[None]`." if len(shape) == 1 else ""
        raise ShapeError(f"`{name}` must have two axes, one row each; got shape {tuple(shape)}.{hint}")


def check_finite_rows(name: str, is_finite: object) -> None:
    if not is_finite:
        raise InvalidValueError(
            f"`{name}` must be finite; got infinity. Put NaN where nothing was observed, or drop those rows."
        )


def check_width(name: str, shape: Sequence[int], wanted: int, like: str = "the stored patterns have") -> None:
    if shape[-1] != wanted:
        raise ShapeError(f"`{name}` must have shape (b, {wanted}), as {like} d={wanted}; got shape {tuple(shape)}.")


def row_numbers(name: str, rows: NDArray[Any], patterns: int) -> NDArray[np.int64]:
    """Row numbers of stored patterns: whole numbers in range."""
    if not rows.size:
        return rows.astype(np.int64)
    if rows.dtype.kind not in "iu":
        raise InvalidTypeError(
            f"`{name}` must be whole numbers, the rows of the stored patterns; got dtype {rows.dtype}. "
            "To look rows up, take the `nonzero` of a mask: of labels that agree, or of what is to go."
        )
    if int(rows.min()) < 0 or int(rows.max()) >= patterns:
        raise InvalidValueError(
            f"`{name}` must lie in 0..{patterns - 1}, as {patterns} patterns are stored; "
            f"got {int(rows.min())}..{int(rows.max())}."
        )
    return rows.astype(np.int64)


def row_flags(name: str, rows: NDArray[Any], patterns: int) -> NDArray[np.bool_]:
    """Flags (n,) of rows that are given as flags or by their numbers."""
    if rows.dtype == np.bool_:
        if rows.shape != (patterns,):
            raise ShapeError(f"`{name}` must have shape ({patterns},), a flag for each row; got {rows.shape}.")
        return rows
    flags = np.zeros(patterns, dtype=np.bool_)
    flags[row_numbers(name, rows, patterns)] = True
    return flags


def as_numbers(name: str, values: Any) -> NDArray[Any]:
    """Numbers (n,) or (n, c) for the stored patterns, NaN where they are not known; single precision stays so."""
    if is_frame(values):
        found = numbers_of(values, name)
    elif is_column(values):
        found = numbers_of_column(values, name)
    elif is_tensor(values):
        found = as_real(name, to_numpy(values))
    elif isinstance(values, np.ndarray):
        found = as_real(name, values)
    else:
        found = _from_lists(name, list(values))
    if found.dtype.kind not in REAL:
        raise InvalidTypeError(f"`{name}` must hold numbers; got {found.dtype}.")
    if found.ndim not in (1, 2):
        raise ShapeError(f"`{name}` must have shape (n,) or (n, c), for n stored patterns; got {found.shape}.")
    if np.isinf(found).any():
        raise InvalidValueError(f"`{name}` must be finite; got infinity. Put NaN where it is not known.")
    return found if found.dtype == np.float32 else found.astype(np.float64)


def _from_lists(name: str, rows: Sequence[Any]) -> NDArray[Any]:
    """Lists of numbers; None where nothing was observed."""
    try:
        found = np.asarray(rows)
        has_words = found.dtype == object and any(isinstance(each, str | bytes) for each in found.flat)
        return found.astype(np.float64) if found.dtype == object and not has_words else found
    except (TypeError, ValueError) as error:
        raise ShapeError(f"`{name}` must be rows of numbers, all of one length; got a list that is not.") from error


def _from_mappings(name: str, rows: Sequence[Mapping[str, Any]], columns: Sequence[str] | None) -> NDArray[Any]:
    """Rows by the names of their columns; those that a row does not name were not observed."""
    if columns is None:
        raise InvalidTypeError(
            f"`{name}` has names for its columns, and there are none here to put them in order by. Store a frame, such "
            f"as `pandas.DataFrame(patterns)`."
        )
    known = set(columns)
    for strange in (each for row in rows for each in row if each not in known):
        raise InvalidValueError(
            f"`{name}` must name columns of the stored patterns, {told(list(columns))}; got {strange!r}."
            f"{did_you_mean(str(strange), columns)}"
        )
    for row in rows:
        check_errors(name, row, columns)
    words = words_of(columns)
    return _from_lists(
        name,
        [[_number(row.get(each), words.get(place)) for place, each in enumerate(columns)] for row in rows],
    )


def _number(value: Any, words: Sequence[str] | None) -> Any:
    """The number of a word, in a column that has words."""
    if words is None or value is None or value != value:
        return value
    return coded([value if isinstance(value, str) else text_of(value)], words)[0]


def _hint(name: str, value: object) -> str:
    if isinstance(value, Mapping):
        return f"Of one row by its names pass `[{name}]`."
    if is_column(value):
        return f"Of one row of a frame pass `{name}.to_frame().T`; of one column, `{name}.to_frame()`."
    return f"Pass `numpy.asarray({name}, dtype='float32')`."


def _unmasked(name: str, value: Any) -> Any:
    """Masked entries were not observed: NaN, where numbers can be."""
    if not isinstance(value, np.ma.MaskedArray):
        return value
    if not np.ma.is_masked(value):
        return value.data
    if value.dtype.kind not in REAL or name not in ROWS_OF_NUMBERS:
        raise InvalidTypeError(f"`{name}` must have no masked entries. Leave those rows out.")
    numbers = value.data if value.dtype.kind == "f" else value.data.astype(np.float64)
    return np.where(np.ma.getmaskarray(value), np.nan, numbers)
