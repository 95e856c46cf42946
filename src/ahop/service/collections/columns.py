"""Columns of all rows, in memory, for filters."""

import json
from collections.abc import Iterable, Mapping
from json.encoder import encode_basestring_ascii
from math import isfinite
from typing import Any, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ahop.errors import InvalidTypeError, InvalidValueError

# Of a column in which nothing is known.
NOTHING = type(None)
KINDS = {
    bool: "true or false",
    int: "whole numbers",
    float: "numbers",
    str: "words",
    NOTHING: "words, numbers, true or false",
}


@final
class Column:
    """The values of one column as codes: looking up many values costs as much as looking up one.

    Args:
        values: words, numbers, or true and false; None where nothing is known.
    """

    def __init__(self, name: str, values: list[Any]) -> None:
        self.name = name
        self.kind: type = next((type(each) for each in values if each is not None), NOTHING)
        self._code_of: dict[Any, int] = {}
        codes = (self._code_of.setdefault(_plain(each), len(self._code_of)) for each in values)
        self._codes: NDArray[np.int64] = np.fromiter(codes, np.int64, len(values))
        self.values = values
        self.longest = longest(values)

    @property
    def kind_name(self) -> str:
        return "null" if self.kind is NOTHING else self.kind.__name__

    def allowed(self, wanted: object) -> NDArray[np.bool_]:
        """Mask of the rows that have one of these values."""
        several = wanted if isinstance(wanted, list | tuple | set | frozenset) else [wanted]
        passes = np.zeros(len(self._code_of) + 1, dtype=bool)
        for each in several:
            passes[self._code_of.get(self._checked(each), -1)] = True
        passes[-1] = False  # where those went that no row has
        found: NDArray[np.bool_] = passes[self._codes]
        return found

    def _checked(self, value: object) -> Any:
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if self.kind is NOTHING:  # of a column of nothing nobody knows what it could hold
            fits = isinstance(value, str | bool | int | float)
        else:
            fits = isinstance(value, self.kind) if self.kind in (bool, str) else is_number
        if value is not None and not fits:
            raise InvalidTypeError(
                f"`where[{self.name!r}]` must be {KINDS.get(self.kind, 'values')}, as the column holds; got "
                f"{type(value).__name__}."
            )
        return _plain(value)


@final
class Columns:
    """The columns of all rows."""

    def __init__(self, columns: Mapping[str, list[Any]], count: int) -> None:
        self.columns = {name: Column(name, values) for name, values in columns.items()}
        self.count = count

    def rows(self, where: Mapping[str, object]) -> Tensor:
        """The rows that have one of these values in each of these columns, (m,)."""
        mask = np.ones(self.count, dtype=bool)
        for name, wanted in where.items():
            if name not in self.columns:
                raise InvalidValueError(f"`where` names {name[:100]!r}; the columns are {sorted(self.columns)}.")
            mask &= self.columns[name].allowed(wanted)
        return torch.from_numpy(mask.nonzero()[0])


def longest(values: Iterable[Any]) -> int:
    """Bytes of the longest value in JSON, with what stands around it; a word in ASCII has up to twelve a character."""
    words, others = set[str](), set[Any]()
    for each in values:
        (words if isinstance(each, str) else others).add(each)
    sizes = (*(len(encode_basestring_ascii(each)) for each in words), *(len(json.dumps(each)) for each in others))
    return max(sizes, default=0) + len(", ")


def _plain(value: Any) -> Any:
    """Numbers that are equal are one value, NaN is a value too."""
    if isinstance(value, bool):
        return ("bool", value)
    if isinstance(value, float) and not isfinite(value):
        return repr(value), None
    return value
