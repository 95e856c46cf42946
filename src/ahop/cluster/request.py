"""Parse and validate HTTP requests."""

import json
from dataclasses import dataclass
from math import isfinite
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from ahop.errors import InvalidTypeError, InvalidValueError, ShapeError

MOST_BYTES, MOST_QUERIES, MOST_ANSWERS, MOST_VALUES = 8 * 2**20, 1024, 1000, 10_000
# Numbers of patterns in one answer.
MOST_NUMBERS = 2**20
KNOWN = {"queries", "k", "where", "groups", "patterns"}


@dataclass(frozen=True)
class RecallRequest:
    """A request that can be answered."""

    queries: NDArray[np.float32]
    k: int
    where: dict[str, Any] | None
    groups: list[str] | None
    patterns: bool


def read_request(body: bytes, dimensions: int) -> RecallRequest:
    """The queries of a request: lists of numbers, null where nothing was observed.

    Raises:
        AhopError: whatever is wrong with it.
    """
    try:
        asked = json.loads(body, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise InvalidValueError(f"The body must be JSON; it cannot be read: {error}.") from None
    if not isinstance(asked, dict):
        raise InvalidTypeError(f'The body must be an object such as {{"queries": [[0.5, null]]}}; got {_kind(asked)}.')
    unknown = sorted(set(asked) - KNOWN)
    if unknown:
        raise InvalidValueError(f"The body may have {sorted(KNOWN)}; got {unknown[:5]!r}.")
    queries = _queries(asked.get("queries"), dimensions)
    groups = _groups(asked.get("groups"), len(queries))
    k, patterns = _count(asked.get("k", 1)), asked.get("patterns", False)
    if not isinstance(patterns, bool):
        raise InvalidTypeError(f"`patterns` must be true or false; got {_kind(patterns)}.")
    if patterns and queries.size * k > MOST_NUMBERS:
        raise InvalidValueError(
            f"`patterns` of an answer may be {MOST_NUMBERS} numbers. Send fewer queries, or leave it out."
        )
    return RecallRequest(queries, k, _where(asked.get("where")), groups, patterns)


def _queries(rows: Any, dimensions: int) -> NDArray[np.float32]:
    if not isinstance(rows, list):
        raise InvalidTypeError(
            f"`queries` must be a list of queries, each a list of {dimensions} numbers; got {_kind(rows)}."
        )
    if len(rows) > MOST_QUERIES:
        raise ShapeError(f"`queries` must be at most {MOST_QUERIES} in a request; got {len(rows)}. Send several.")
    for row in rows:
        if not isinstance(row, list) or len(row) != dimensions:
            got = f"{len(row)} numbers" if isinstance(row, list) else _kind(row)
            raise ShapeError(f"`queries` must be lists of {dimensions} numbers, as the patterns have; got {got}.")
    numbers = [_number(value) for row in rows for value in row]
    return np.array(numbers, dtype=np.float64).reshape(len(rows), dimensions).astype(np.float32)


def _number(value: Any) -> float:
    if value is None:
        return float("nan")
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidTypeError(f"`queries` must hold numbers, or null where nothing was observed; got {_kind(value)}.")
    edge = float(np.finfo(np.float32).max)
    if isinstance(value, int):
        return float(max(min(value, int(edge)), -int(edge)))
    if not isfinite(value):
        raise InvalidValueError("`queries` must be finite numbers, or null where nothing was observed; got infinity.")
    return max(min(value, edge), -edge)


def _count(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MOST_ANSWERS:
        got = value if isinstance(value, int) and abs(value) < 10**9 else _kind(value)
        raise InvalidValueError(f"`k` must be a whole number in 1..{MOST_ANSWERS}; got {got}.")
    return value


def _where(value: Any) -> dict[str, Any] | None:
    """Which columns there are, and what they hold, the store checks."""
    if value is None:
        return None
    if not isinstance(value, dict):
        raise InvalidTypeError(f"`where` must name columns and the values that they may have; got {_kind(value)}.")
    for wanted in value.values():
        several = wanted if isinstance(wanted, list) else [wanted]
        if len(several) > MOST_VALUES:
            raise ShapeError(f"`where` must have at most {MOST_VALUES} values for a column; got {len(several)}.")
        for each in several:
            if isinstance(each, dict | list):
                raise InvalidTypeError(
                    f"`where` must have words, numbers, or true and false as values; got {_kind(each)}."
                )
    return value


def _groups(value: Any, count: int) -> list[str] | None:
    if value is None:
        return None
    if not isinstance(value, list) or len(value) != count or not all(isinstance(each, str | int) for each in value):
        raise InvalidTypeError(f"`groups` must be {count} names, one for each query, or null; got {_kind(value)}.")
    return [str(each) for each in value]


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON; null stands for what was not observed")


def _kind(value: Any) -> str:
    names = {type(None): "nothing", bool: "true or false", int: "a number", float: "a number", str: "a word"}
    return names.get(type(value), "a list" if isinstance(value, list) else "an object")
