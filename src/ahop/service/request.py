"""Read the bodies of requests: JSON, checked before anything is made of it."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from math import isfinite
from typing import Any, NoReturn

import numpy as np
import torch
from torch import Tensor

from ahop._core.json import parse_json
from ahop.errors import InvalidTypeError, InvalidValueError, ShapeError
from ahop.memory.decisions import Policy
from ahop.service.options import Limits

NUMBERS = frozenset({int, float, type(None)})
RECALL = ("queries", "k", "where", "groups", "same", "patterns", "columns", "explain", "policy")
LINK = ("queries", "where", "groups", "one_to_one", "unmatched")
CREATE = ("patterns", "metadata")
ADD, DELETE, PAIRS, FIT = (
    ("patterns", "ids", "metadata"),
    ("ids",),
    ("queries", "ids", "groups"),
    ("queries", "similarity"),
)
POLICY = ("accept_from", "unknown_from", "set_from")
LARGEST = float(np.finfo(np.float32).max)
# Lists and objects of a body: ten thousand rows have as many. A body of millions would hold up all others for seconds.
MOST_LISTS = 50_000
# Numbers of rows in a request.
MOST_IDS = 10_000
# Values of a row beside its numbers: the list itself, a group, an id; and commas within words, which count as values.
BESIDE = 8


class TooLargeError(ShapeError):
    """More was sent than there is use for."""


@dataclass(frozen=True)
class RecallRequest:
    """What is asked: the arguments of `recall`, and what the answer should hold.

    Attributes:
        patterns: the stored patterns themselves.
        columns: what is known of the answers.
        explain: why each query is answered as it is.
        policy: from where on an answer is accepted.
    """

    queries: Tensor
    k: int = 1
    where: dict[str, Any] | None = None
    groups: list[str] | None = None
    same: list[str | int] | None = None
    patterns: bool = False
    columns: tuple[str, ...] = ()
    explain: bool = False
    policy: Policy | None = None


@dataclass(frozen=True)
class LinkSettings:
    """How rows are linked.

    Attributes:
        one_to_one: whether a stored pattern is the origin of one query at most.
        unmatched: share of the queries that come from no stored pattern; None to estimate it.
    """

    one_to_one: bool = True
    unmatched: float | None = None


def most_values(limits: Limits, dimensions: int, columns: int, rows: int | None = None) -> int:
    """So many values can be of use in a request: rows, and for each column its entries or those of a filter."""
    of_rows = (limits.queries if rows is None else rows) * (dimensions + BESIDE)
    return min(limits.body_values, of_rows + columns * limits.values)


def check_values(body: bytes, most: int) -> None:
    """Refuse a body of too many values before it is read, which would hold up all others.

    A value follows a comma, or is the first of its list or object: these are counted, also within words.
    """
    if len(body) <= min(most, MOST_LISTS):
        return
    written = np.frombuffer(body, np.uint8)
    commas, lists, objects = (int(np.count_nonzero(written == ord(each))) for each in ",[{")
    if lists + objects > MOST_LISTS:
        raise TooLargeError(f"The body may have {MOST_LISTS} lists and objects; got more. Send fewer rows at a time.")
    if commas + lists + objects > most:
        raise TooLargeError(
            f"The body may have {most} values, as many as there is use for here; got about {commas + lists + objects}. "
            "Send fewer rows at a time."
        )


def read_json(body: bytes, known: Sequence[str], most: int = Limits.body_values) -> dict[str, Any]:
    """An object that has none but the known fields, and so many values at most."""
    check_values(body, most)
    try:
        asked = parse_json(body, parse_constant=_refuse_constant)
    except ValueError as error:
        raise InvalidValueError(f"The body must be JSON; it cannot be read: {str(error)[:200]}.") from None
    if not isinstance(asked, dict):
        raise InvalidTypeError(f'The body must be an object such as {{"{known[0]}": ...}}; got {kind_of(asked)}.')
    unknown = sorted(set(asked) - set(known))
    if unknown:
        raise InvalidValueError(f"The body may have {sorted(known)}; got {[each[:50] for each in unknown[:5]]!r}.")
    return asked


def recall_request(asked: dict[str, Any], dimensions: int, limits: Limits) -> RecallRequest:
    """What the fields of a request ask for."""
    rows = read_rows("queries", asked.get("queries"), dimensions, limits.queries)
    columns = _names("columns", asked.get("columns"))
    request = RecallRequest(
        queries=rows,
        k=_count("k", asked.get("k", 1), limits.answers),
        where=read_where(asked.get("where"), limits),
        groups=read_groups(asked.get("groups"), len(rows)),
        same=_entries("same", asked.get("same"), len(rows)),
        patterns=_flag("patterns", asked.get("patterns", False)),
        columns=columns,
        explain=_flag("explain", asked.get("explain", False)),
        policy=_policy(asked.get("policy")),
    )
    if request.explain and (len(rows) > limits.explained or request.same is not None):
        raise InvalidValueError(f"`explain` takes at most {limits.explained} queries, and not `same`. Ask for fewer.")
    return request


def link_settings(asked: dict[str, Any]) -> LinkSettings:
    share = asked.get("unmatched")
    if share is not None and (type(share) not in (int, float) or not 0 <= share < 1):
        raise InvalidValueError(f"`unmatched` must be at least 0 and less than 1; got {kind_of(share)}.")
    return LinkSettings(_flag("one_to_one", asked.get("one_to_one", True)), share)


def read_metadata(value: Any) -> dict[str, list[Any]]:
    """Columns; what they hold, the store checks."""
    if value is None:
        return {}
    if not isinstance(value, dict) or not all(isinstance(each, list) for each in value.values()):
        raise InvalidTypeError("`metadata` must be columns, each a list with one entry for each pattern.")
    if any(isinstance(each, float) and not isfinite(each) for each in chain.from_iterable(value.values())):
        raise InvalidValueError("`metadata` must have finite numbers, or null where nothing is known; got infinity.")
    return value


def read_rows(name: str, rows: Any, dimensions: int, most: int) -> Tensor:
    """Lists of numbers, null where nothing was observed, as (b, d) in single precision."""
    if not isinstance(rows, list):
        raise InvalidTypeError(
            f"`{name}` must be a list of rows, each a list of {dimensions} numbers; got {kind_of(rows)}."
        )
    if len(rows) > most:
        raise ShapeError(f"`{name}` must be at most {most} in a request; got {len(rows)}. Send several requests.")
    for row in rows:
        if not isinstance(row, list) or len(row) != dimensions:
            got = f"{len(row)} numbers" if isinstance(row, list) else kind_of(row)
            raise ShapeError(f"`{name}` must be lists of {dimensions} numbers, as the patterns have; got {got}.")
    strange = set(map(type, chain.from_iterable(rows))) - NUMBERS
    if strange:
        raise InvalidTypeError(
            f"`{name}` must hold numbers, or null where nothing was observed; got {kind_of(strange.pop()())}."
        )
    try:
        numbers = np.array(rows, dtype=np.float64).reshape(len(rows), dimensions)
    except (OverflowError, TypeError):  # whole numbers beyond all floats
        numbers = np.array([[_number(each) for each in row] for row in rows]).reshape(len(rows), dimensions)
    if np.isinf(numbers).any():
        raise InvalidValueError(f"`{name}` must be finite numbers, or null where nothing was observed; got infinity.")
    return torch.from_numpy(np.clip(numbers, -LARGEST, LARGEST).astype(np.float32))


def read_where(value: Any, limits: Limits) -> dict[str, Any] | None:
    """Which columns there are, and what they hold, the collection checks."""
    if value is None:
        return None
    if not isinstance(value, dict):
        raise InvalidTypeError(f"`where` must name columns and the values that they may have; got {kind_of(value)}.")
    for wanted in value.values():
        several = wanted if isinstance(wanted, list) else [wanted]
        if len(several) > limits.values:
            raise ShapeError(f"`where` must have at most {limits.values} values for a column; got {len(several)}.")
        for each in several:
            if isinstance(each, dict | list) or (isinstance(each, float) and not isfinite(each)):
                raise InvalidTypeError(f"`where` must have words, numbers, or true and false; got {kind_of(each)}.")
    return value


def read_groups(value: Any, count: int) -> list[str] | None:
    found = _entries("groups", value, count)
    return None if found is None else [str(each) for each in found]


def read_ids(value: Any, count: int | None = None, most: int = MOST_IDS) -> list[int]:
    """Whole numbers of rows."""
    is_listed = isinstance(value, list) and all(type(each) is int and 0 <= each < 2**63 for each in value)
    if not is_listed or (count is not None and len(value) != count):
        wanted = "whole numbers" if count is None else f"{count} whole numbers, one for each row"
        raise InvalidTypeError(f"`ids` must be a list of {wanted}; got {kind_of(value)}.")
    if len(value) > most:
        raise ShapeError(f"`ids` must be at most {most} in a request; got {len(value)}. Send several requests.")
    return list(value)


def read_version(value: str) -> int:
    if not value.isascii() or not value.isdigit() or len(value) > 18:
        raise InvalidValueError("The version must be a whole number.")
    return int(value)


def kind_of(value: Any) -> str:
    names = {type(None): "nothing", bool: "true or false", int: "a number", float: "a number", str: "a word"}
    return names.get(type(value), "a list" if isinstance(value, list) else "an object")


def _entries(name: str, value: Any, count: int) -> list[str | int] | None:
    if value is None:
        return None
    is_listed = isinstance(value, list) and all(type(each) in (str, int) for each in value)
    if not is_listed or len(value) != count:
        got = f"{len(value)} entries" if is_listed else kind_of(value)
        raise InvalidTypeError(f"`{name}` must be {count} words or numbers, one for each query; got {got}.")
    return list(value)


def _names(name: str, value: Any) -> tuple[str, ...]:
    if value is None:
        return ()
    if not isinstance(value, list) or len(value) > 100 or not all(isinstance(each, str) for each in value):
        raise InvalidTypeError(f"`{name}` must be a list of at most 100 words; got {kind_of(value)}.")
    return tuple(value)


def _flag(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise InvalidTypeError(f"`{name}` must be true or false; got {kind_of(value)}.")
    return value


def _count(name: str, value: Any, most: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
        got = value if isinstance(value, int) and abs(value) < 10**9 else kind_of(value)
        raise InvalidValueError(f"`{name}` must be a whole number in 1..{most}; got {got}.")
    return value


def _policy(value: Any) -> Policy | None:
    if value is None:
        return None
    if not isinstance(value, dict) or not set(value) <= set(POLICY) or "accept_from" not in value:
        raise InvalidTypeError(
            f'`policy` must be such as {{"accept_from": 0.95}}, with {list(POLICY)}; got {kind_of(value)}.'
        )
    for name, each in value.items():
        if type(each) not in (int, float) or not 0 <= each <= 1:  # a flag is no number here
            raise InvalidValueError(f"`policy[{name!r}]` must lie between 0 and 1; got {kind_of(each)}.")
    set_from = value.get("set_from")
    return Policy(
        float(value["accept_from"]),
        float(value.get("unknown_from", 0.5)),
        None if set_from is None else float(set_from),
    )


def _number(value: float | None) -> float:
    return float("nan") if value is None else float(max(min(value, LARGEST), -LARGEST)) if value == value else value


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON; null stands for what was not observed")
