"""Filters on metadata columns, as Lance expressions."""

from collections.abc import Mapping
from math import isinf, isnan
from typing import Any

import numpy as np
import torch

from ahop._core import optional
from ahop._core.typing import Array
from ahop.errors import InvalidTypeError, InvalidValueError
from ahop.scale.stores.table_rows import PATTERN

LARGEST = 2**63 - 1


def as_filter(where: Mapping[str, object] | Array, schema: Any) -> str:
    """The rows whose columns have one of these values each; None stands for rows that have none.

    Only names of columns that there are get into the filter, and values as literals of their column's kind.
    """
    if not isinstance(where, Mapping):
        raise InvalidTypeError(
            f"`where` must name columns and the values that they may have; got {type(where).__name__}. For some rows "
            "pass `{'id': ids}`."
        )
    names = [name for name in schema.names if name != PATTERN]
    parts = ["true"]
    for name, wanted in where.items():
        if name not in names:
            raise InvalidValueError(f"`where` names {name!r}; the columns are {sorted(names)}.")
        literals = {_literal(name, value, schema.field(name).type) for value in _several(wanted)}
        known = sorted(each for each in literals if each is not None and each != "NULL")
        choices = [f"`{name}` IN ({', '.join(known)})"] if known else []
        choices += [f"`{name}` IS NULL"] if "NULL" in literals else []
        parts.append(f"({' OR '.join(choices) or 'false'})")
    return " AND ".join(parts)


def kind_of(kind: Any) -> str:
    """Python's name for the values of a column."""
    types = optional.pyarrow().types
    known = {"bool": types.is_boolean, "int": types.is_integer, "float": types.is_floating}
    return next((name for name, fits in known.items() if fits(kind)), "str")


def _several(wanted: object) -> list[Any]:
    if isinstance(wanted, torch.Tensor | np.ndarray):
        listed: list[Any] = np.asarray(wanted).reshape(-1).tolist()
        return listed
    return list(wanted) if isinstance(wanted, set | frozenset | list | tuple) else [wanted]


def _literal(name: str, value: Any, kind: Any) -> str | None:
    """A value in the words of SQL; None if no row of such a column can have it."""
    types = optional.pyarrow().types
    value = value.item() if isinstance(value, np.generic) else value
    if value is None:
        return "NULL"
    if types.is_boolean(kind) and isinstance(value, bool):
        return "true" if value else "false"
    if types.is_string(kind) and isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:  # half a character: no column can hold it
            return None
        return "'" + value.replace("'", "''") + "'"
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if types.is_integer(kind) and is_number:
        is_whole = not (isinstance(value, float) and (isnan(value) or isinf(value) or value != int(value)))
        if not is_whole or not -LARGEST <= int(value) <= LARGEST:
            return None
        return str(int(value))
    if types.is_floating(kind) and is_number:
        number = _as_float(value)
        if number is None or isnan(number):
            return None
        return f"CAST('{'-' if number < 0 else ''}inf' AS DOUBLE)" if isinf(number) else f"CAST('{number!r}' AS DOUBLE)"
    raise InvalidTypeError(f"`where[{name!r}]` must be values of the kind {kind}, as the column holds; got {value!r}.")


def _as_float(value: int | float) -> float | None:
    """Convert to a float; None if there is no such float."""
    try:
        return float(value) if isnan(value) or float(value) == value else None
    except OverflowError:
        return None
