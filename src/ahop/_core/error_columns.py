"""Rows together with the standard deviations of their values."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ahop._core.arrays import is_tensor, to_numpy
from ahop._core.frames import is_frame, names_of
from ahop._core.rows import as_real, check_axes, read_rows
from ahop._core.words import told
from ahop.errors import InvalidTypeError, InvalidValueError, ShapeError

# Behind the name of a column, in the name of that of its standard deviations.
ENDING = "_std"


def with_errors(values: Any, errors: Any = None, *, counts: Any = None) -> Any:
    """Values (n, d) and, in d columns behind them, their standard deviations, as `fit(..., errors=True)` reads them.

    Args:
        values: rows of numbers. To a frame columns are added whose names end in `_std`: `fit(..., errors="_std")`.
        errors: (n, d) standard deviations, or (d,) of all rows; NaN where one is not known.
        counts: instead, how many readings each value is the mean of, (n, d) or (n, 1). Its standard deviation is taken
            for one over their square root, and the fit finds the factor.
    """
    if (errors is None) == (counts is None):
        raise InvalidTypeError("`with_errors` takes either `errors` or `counts`; got both, or neither.")
    names = names_of(values)
    rows = _numbers("values", values)
    check_axes("values", rows.shape)
    name, given = ("errors", errors) if counts is None else ("counts", counts)
    found = _numbers(name, given, names)
    try:
        found = np.broadcast_to(found, rows.shape)
    except ValueError:
        raise ShapeError(f"`{name}` must have the shape of the values, {rows.shape}; got {found.shape}.") from None
    if bool((found < 0).any()):
        raise InvalidValueError(f"`{name}` must not be below zero.")
    if counts is not None:
        found = 1 / np.sqrt(np.where(found == 0, np.nan, found))
    if names is not None:
        return _beside(values, names, found)
    both = np.concatenate([rows, found.astype(rows.dtype)], axis=1)
    if not is_tensor(values):
        return both
    return (values if values.is_floating_point() else values.double()).new_tensor(both)


def _numbers(name: str, given: Any, names: Sequence[str] | None = None) -> Any:
    """Numbers with a point: whole ones would round what stands beside them."""
    if is_tensor(given):
        found = as_real(name, to_numpy(given))
    elif isinstance(given, np.ndarray):
        found = as_real(name, given)
    elif is_frame(given) or name == "values":
        found = read_rows(name, given, names)
    else:
        found = as_real(name, np.asarray(given))
    return found if found.dtype.kind == "f" else found.astype(np.float64)


def _beside(frame: Any, names: Sequence[str], errors: Any) -> Any:
    """The frame with a column more for each."""
    columns = {f"{name}{ENDING}": errors[:, place] for place, name in enumerate(names)}
    taken = [name for name in columns if name in names]
    if taken:
        raise InvalidValueError(f"`values` must not have columns of these names already: {told(taken)}.")
    if hasattr(frame, "with_columns"):
        return frame.with_columns(**columns)
    return frame.assign(**columns)
