"""Argument checks. Every error names the argument, what is required, what was given, and how to fix it."""

from collections.abc import Sequence
from typing import TypeVar

import numpy as np

from ahop.errors import InvalidTypeError, InvalidValueError, ShapeError

Name = TypeVar("Name", bound=str)
Part = TypeVar("Part")


def check_positive(name: str, value: float) -> float:
    if not value > 0 or value == float("inf"):
        raise InvalidValueError(f"`{name}` must be positive and finite; got {value!r}.")
    return float(value)


def check_not_negative(name: str, value: float) -> float:
    if not value >= 0 or value == float("inf"):
        raise InvalidValueError(f"`{name}` must be zero or larger, and finite; got {value!r}.")
    return float(value)


def check_finite(name: str, value: float) -> float:
    if not -float("inf") < value < float("inf"):
        raise InvalidValueError(f"`{name}` must be a finite number; got {value!r}.")
    return float(value)


def check_rate(name: str, value: float) -> float:
    if not 0 <= value <= 1:
        raise InvalidValueError(f"`{name}` is a share of the dimensions and must lie in [0, 1]; got {value!r}.")
    return float(value)


def check_count(name: str, value: int, least: int = 1) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
        raise InvalidValueError(f"`{name}` must be a whole number of at least {least}; got {value!r}.")
    return int(value)


def check_choice(name: str, value: Name, choices: Sequence[Name]) -> Name:
    if value not in choices:
        raise InvalidValueError(f"`{name}` must be one of {', '.join(map(repr, choices))}; got {value!r}.")
    return value


def check_kind(name: str, value: Part, kind: type) -> Part:
    if not isinstance(value, kind):
        got = f"the class `{value.__name__}`. Call it" if isinstance(value, type) else type(value).__name__
        raise InvalidTypeError(f"`{name}` must be of the kind {kind.__name__}; got {got}.")
    return value


def as_group_names(groups: Sequence[object], count: int) -> list[str]:
    """The name of each query's group, as words: numbers and strings alike."""
    if isinstance(groups, str) or not hasattr(groups, "__len__") or len(groups) != count:
        raise ShapeError(f"`groups` must be {count} names, one for each query; got {_said(groups)}.")
    return [str(name) for name in np.asarray(groups).tolist()]


def _said(value: object) -> str:
    return f"{len(value)}" if hasattr(value, "__len__") and not isinstance(value, str) else repr(value)
