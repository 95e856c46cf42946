"""Labels of stored patterns: strings and integers; other types are converted by `str`."""

import json
from collections.abc import Iterable
from typing import Any, TypeAlias, TypeGuard

import numpy as np
from numpy.typing import NDArray

from ahop._core.arrays import is_tensor
from ahop._core.words import did_you_mean
from ahop.errors import InvalidTypeError, InvalidValueError, ShapeError

Label: TypeAlias = str | int
# Kinds that hold several right ids of one query.
SEVERAL = (list, set, frozenset)
# Whole numbers beyond those that machines count with are kept as words.
SMALLEST, LARGEST = -(2**63), 2**64 - 1


def as_label(value: object) -> Label:
    """Strings and whole numbers as they are, everything else, such as a tuple or a date, by `str`."""
    if is_label(value):
        return value
    if is_tensor(value) and value.ndim == 0:
        value = value.item()
    is_whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    return int(value) if is_whole and SMALLEST <= value <= LARGEST else str(value)  # type: ignore[operator, call-overload]


def is_label(value: object) -> TypeGuard[Label]:
    return type(value) is str or (type(value) is int and SMALLEST <= value <= LARGEST)


def entries(name: str, values: Iterable[Any]) -> list[Any]:
    """List the entries of a list, an array or a column of a frame, one for each row."""
    if isinstance(values, str | bytes) or not hasattr(values, "__iter__"):
        raise InvalidTypeError(
            f"`{name}` must be a list, an array or a column of a frame; got {type(values).__name__}."
        )
    if getattr(values, "ndim", 1) != 1 or hasattr(values, "columns"):
        raise ShapeError(f"`{name}` must have one axis, an entry for each row; got {type(values).__name__} with two.")
    if isinstance(values, np.ndarray) and values.dtype.kind in "mM":  # numpy would make bare numbers of dates
        return list(values)
    to_list = getattr(values, "to_list", None) or getattr(values, "tolist", None)
    return list(values) if to_list is None else list(to_list())


def as_labels(labels: Iterable[Any], count: int, name: str = "labels") -> NDArray[np.object_]:
    """One label for each of `count` rows, (n,), never to be changed in place."""
    return frozen([as_label(each) for each in entries(name, labels)], count, name)


def frozen(labels: list[Label] | NDArray[np.object_], count: int, name: str = "labels") -> NDArray[np.object_]:
    """Freeze labels into an array that cannot be changed: copies of a memory share it."""
    if len(labels) != count:
        raise ShapeError(f"`{name}` must be {count}, one for each pattern; got {len(labels)}.")
    found = np.empty(count, dtype=object)
    found[:] = labels
    found.flags.writeable = False
    return found


def in_lines(text: bytes, count: int) -> NDArray[np.object_]:
    """Labels in lines, each as JSON writes it. The lines are counted before anything is made of them."""
    if text.count(b"\n") != count - 1:
        raise InvalidValueError(f"there must be {count} labels, one for each pattern.")
    found = json.loads(f"[{text.decode('ascii')}]".replace("\n", ","))
    if not all(is_label(label) for label in found):
        raise InvalidValueError("labels must be words or whole numbers.")
    return frozen(found, count)


def rows_by_label(labels: NDArray[np.object_], wanted: Iterable[Any], name: str = "origins") -> list[int]:
    """The rows of the stored patterns that have these labels."""
    row_of: dict[Label, int] = {}
    for row, label in enumerate(labels.tolist()):
        if row_of.setdefault(label, row) != row:
            raise InvalidValueError(
                f"`{name}` cannot be looked up: the label {label!r} is that of row {row_of[label]} and of row {row}. "
                f"Make labels unique (`ahop.transforms.pool_visits` makes one pattern of several rows), or give "
                f"row numbers: `pairs=ahop.Pairs(rows, copies)`."
            )
    sought = [as_label(each) for each in entries(name, wanted)]
    for label in sought:
        if label not in row_of:
            near = did_you_mean(str(label), map(str, row_of))
            of_pairs = "For row numbers pass `pairs=ahop.Pairs(rows, copies)`, for no labels a frame with "
            hint = f" {of_pairs}`reset_index(drop=True)`." if name == "origins" else ""
            raise InvalidValueError(
                f"`{name}` must be labels of the stored patterns, such as {labels[0]!r}; {label!r} is none of them."
                f"{near}{hint}"
            )
    return [row_of[label] for label in sought]


def right_ids(given: Any) -> frozenset[Label]:
    """The right ids of one query: one, several in a list or a set, or none if None."""
    if given is None:
        return frozenset()
    return frozenset(as_label(each) for each in (given if isinstance(given, SEVERAL) else [given]))
