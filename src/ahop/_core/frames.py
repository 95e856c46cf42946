"""Column names, labels and numbers of pandas and polars frames. Neither package is imported."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ahop._core.columns import MOST_WORDS, Columns, check_errors, coded, words_of
from ahop._core.words import did_you_mean, told
from ahop.errors import InvalidTypeError, InvalidValueError

NUMBERS = "fiub"


def is_frame(value: object) -> bool:
    return hasattr(value, "columns") and (hasattr(value, "iloc") or hasattr(value, "get_columns"))


def names_of(frame: object, name: str = "patterns") -> tuple[str, ...] | None:
    """The names of a frame's columns; None if it is no frame, or its columns are but counted: 0, 1, 2."""
    if not is_frame(frame):
        return None
    given = list(frame.columns)  # type: ignore[attr-defined]
    if given == list(range(len(given))):
        return None
    names = tuple(str(each) for each in given)
    if len(set(names)) != len(names):
        twice = [each for each in dict.fromkeys(names) if names.count(each) > 1]
        raise InvalidValueError(f"`{name}` must have columns of different names; got {told(twice)} more than once.")
    return names


def columns_of(frame: Any, name: str = "patterns") -> Columns | None:
    """The names of a frame's columns, with the words of those that hold categories; None as `names_of` says."""
    names = names_of(frame, name)
    if names is None:
        return None
    found = {place: _categories(_column(frame, place)) for place in range(len(names))}
    return Columns(names, {place: words for place, words in found.items() if words})


def index_of(frame: object) -> list[Any] | None:
    """The index of a frame of pandas; None if it but counts the rows, or there is none, as in polars."""
    if not is_frame(frame) or not hasattr(frame, "iloc"):
        return None
    index: list[Any] = frame.index.tolist()  # type: ignore[attr-defined]
    return None if index == list(range(len(index))) else index


def numbers_of(
    frame: Any, name: str, columns: Sequence[str] | None = None, narrow: DTypeLike = np.float32
) -> NDArray[Any]:
    """The numbers of a frame, (b, d); NaN where there is none.

    With `columns` the columns are put into this order: those that the frame has not got were not observed. Without
    a column of double precision they have the dtype `narrow`.
    """
    names, words = names_of(frame, name), words_of(columns)
    if names is None or columns is None:
        return _table(frame, name, names, list(range(len(frame.columns))), narrow)
    unknown = [each for each in names if each not in set(columns)]
    if unknown:
        raise InvalidValueError(
            f"`{name}` has columns that the stored patterns have not got: {told(unknown)}. Leave them out by "
            f"`{name}.drop(columns=[...])`, or rename them to one of {told(list(columns))}."
            f"{did_you_mean(unknown[0], columns)}"
        )
    check_errors(name, names, columns)
    place = {each: where for where, each in enumerate(names)}
    return _table(frame, name, names, [place.get(each) for each in columns], narrow, words)


def like_frame(frame: Any, values: NDArray[Any], index: Sequence[Any]) -> Any:
    """Other rows under the same names; with this index, if frames of this kind have one."""
    if not hasattr(frame, "iloc"):
        return type(frame)(dict(zip(frame.columns, values.T, strict=True)))
    return type(frame)(values, index=index, columns=frame.columns)


def is_column(value: object) -> bool:
    """True for a column of a frame, a series."""
    return not is_frame(value) and hasattr(value, "dtype") and (hasattr(value, "iloc") or hasattr(value, "cast"))


def numbers_of_column(column: Any, name: str) -> NDArray[Any]:
    """The numbers of one column, (n,); NaN where there is none."""
    if _is_words(column):
        raise InvalidTypeError(f"`{name}` must hold numbers; got a column of {column.dtype}.")
    return _numbers(column)


def _table(
    frame: Any,
    name: str,
    names: Sequence[str] | None,
    places: Sequence[int | None],
    narrow: DTypeLike,
    words: Mapping[int, tuple[str, ...]] = MappingProxyType({}),
) -> NDArray[Any]:
    """Numbers of the columns at these places of the frame.

    Args:
        words: of columns that hold categories, by where they stand in the table.
    """
    columns = [None if place is None else _column(frame, place) for place in places]
    strange = [
        place
        for where, (place, column) in enumerate(zip(places, columns, strict=True))
        if column is not None and where not in words and _is_words(column)
    ]
    if strange:
        found = told([str(place) if names is None else names[place] for place in strange if place is not None])
        raise InvalidTypeError(
            f"`{name}` must hold numbers; the columns {found} do not. Leave them out, or make numbers of them; a "
            f"column that names the rows becomes `labels=`. Categories are words of stored rows that repeat, at most "
            f"{MOST_WORDS} different ones."
        )
    is_wide = any(_is_double(each) for each in columns)
    values = np.full((len(frame), len(places)), np.nan, dtype=np.float64 if is_wide else narrow)
    for where, column in enumerate(columns):
        if column is not None:
            values[:, where] = coded(_texts(column), words[where]) if where in words else _numbers(column)
    return values


def _column(frame: Any, place: int) -> Any:
    return frame.iloc[:, place] if hasattr(frame, "iloc") else frame.to_series(place)


def _is_double(column: Any) -> bool:
    return column is not None and str(column.dtype).lower().startswith(("float64", "double"))


def _is_words(column: Any) -> bool:
    """True if a column holds something else than numbers and gaps."""
    if hasattr(column, "iloc"):
        if getattr(column.dtype, "kind", "O") in NUMBERS:
            return False
    elif column.dtype.is_numeric():
        return False
    if str(column.dtype) not in ("object", "Object", "Boolean", "Null"):
        return True
    known = (bool, int, float, np.number, np.bool_)
    return not all(isinstance(each, known) or _is_gap(each) for each in column.to_list())


# Their places are the numbers that flags are elsewhere.
FLAGS = (str(False), str(True))


def _categories(column: Any) -> tuple[str, ...]:
    """The words of a column of categories, in their order; none if it holds something else.

    Words that nobody declared to be categories are these if some repeat.
    """
    kind = str(column.dtype).lower()
    is_declared = kind.startswith(("category", "categorical", "enum", "bool"))
    if not is_declared and (not kind.startswith(("object", "str", "utf8")) or not _is_words(column)):
        return ()
    texts = [text for text in _texts(column) if text is not None]
    words = set(texts)
    if kind.startswith("bool") and words:
        return FLAGS
    if not is_declared and len(words) == len(texts) > 1:
        return ()
    is_ordered = hasattr(column, "iloc") and hasattr(column.dtype, "categories")
    found = [text_of(each) for each in column.cat.categories] if is_ordered else sorted(words)
    return tuple(found) if len(found) <= MOST_WORDS else ()


def _texts(column: Any) -> list[str | None]:
    return [None if _is_gap(each) or each != each else text_of(each) for each in _values(column)]


def _values(column: Any) -> list[Any]:
    return column.tolist() if hasattr(column, "iloc") else column.to_list()  # type: ignore[no-any-return]


def text_of(value: Any) -> str:
    """As people write it: a whole number has no point."""
    is_whole = isinstance(value, float | np.floating) and float(value).is_integer()
    return str(int(value)) if is_whole else str(value)


def _is_gap(value: object) -> bool:
    return value is None or type(value).__name__ == "NAType"


def _numbers(column: Any) -> NDArray[Any]:
    if hasattr(column, "iloc") and str(column.dtype) != "object":
        found: NDArray[Any] = column.to_numpy(dtype=np.float64, na_value=np.nan)
    elif str(column.dtype) in ("object", "Object"):
        found = np.array([np.nan if _is_gap(each) else float(each) for each in column.to_list()], dtype=np.float64)
    else:
        found = column.cast(float).to_numpy()
    return found
