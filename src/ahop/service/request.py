"""Bodies of requests. Each field is described once: for reading, for errors and for OpenAPI."""

import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias, TypeVar

import msgspec
import numpy as np
import torch
from msgspec import Meta, Struct
from torch import Tensor

from ahop._core.words import did_you_mean, told
from ahop.errors import InvalidTypeError, InvalidValueError, ShapeError
from ahop.memory.decisions import Policy
from ahop.service.options import Limits

LARGEST = float(np.finfo(np.float32).max)
# Lists and objects of a body: ten thousand rows have as many. A body of millions would hold up all others for seconds.
MOST_LISTS = 50_000
# Numbers of rows in a request.
MOST_IDS = 10_000
# Values of a row beside its numbers: the list itself, a group, an id; and commas within words, which count as values.
BESIDE = 8
# Characters of a name of a column that an error repeats.
SHOWN = 50


def _says(words: str, schema: dict[str, Any] | None = None) -> Meta:
    """Description of a field: OpenAPI has it, and the sentence "`field` must be ..." of an error."""
    return Meta(description=words, extra_json_schema=schema)


Row: TypeAlias = list[float | None] | dict[str, float | None]
Value: TypeAlias = bool | int | float | str | None
Share: TypeAlias = Annotated[float, Meta(ge=0, le=1)]
Threshold: TypeAlias = Literal["accept_from", "unknown_from", "set_from"]
Groups: TypeAlias = Annotated[
    list[str | int] | None, _says("words or numbers, one for each query: its group, such as its device")
]
Where: TypeAlias = Annotated[
    dict[str, Value | list[Value]] | None,
    _says("columns and the values that they may have: only such rows are answered"),
]
Ids: TypeAlias = list[Annotated[int, Meta(ge=0, le=2**63 - 1)]]
Metadata: TypeAlias = Annotated[
    dict[str, list[Value]] | None, _says("the columns of the store, each a list with one entry a pattern")
]
Queries: TypeAlias = Annotated[
    list[Row],
    _says(
        "rows of numbers, null where nothing was observed: lists such as [0.1, null], or objects by the "
        'names of columns such as {"ap01": -60}, in which a missing name was not observed'
    ),
]
Patterns: TypeAlias = Annotated[
    list[Row], _says("rows of numbers, null where nothing was observed; lists, or objects by column names")
]


class TooLargeError(ShapeError):
    """A body of more values than the collection has use for."""


class Body(Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """JSON object of known fields."""


class RecallFields(Body, kw_only=True, frozen=True):
    """Fields of a recall beside its queries."""

    k: Annotated[int, _says("a whole number: how many answers to each query", {"minimum": 1})] = 1
    where: Where = None
    patterns: Annotated[bool, _says("true or false: answer the stored patterns too")] = False
    same: Annotated[
        list[str | int] | None,
        _says("words or numbers, one for each query, equal where queries have their origin in common"),
    ] = None
    columns: Annotated[
        Annotated[list[str], Meta(max_length=100)] | None, _says("names of columns to answer for each row, at most 100")
    ] = None
    explain: Annotated[bool, _says("true or false: say why each query is answered as it is")] = False
    policy: Annotated[
        dict[Threshold, Share] | None,
        _says('thresholds from 0 to 1, such as {"accept_from": 0.95}, with unknown_from and set_from'),
    ] = None


class RecallBody(RecallFields, kw_only=True, frozen=True):
    queries: Queries
    groups: Groups = None


class LinkBody(Body, kw_only=True, frozen=True):
    queries: Queries
    where: Where = None
    groups: Groups = None
    one_to_one: Annotated[bool, _says("true or false: a stored pattern is the origin of one query at most")] = True
    unmatched: Annotated[
        Annotated[float, Meta(ge=0, lt=1)] | None,
        _says("share of the queries that come from no stored pattern, at least 0 and less than 1"),
    ] = None


class CreateBody(Body, kw_only=True, frozen=True):
    patterns: Patterns
    metadata: Metadata = None


class AddBody(CreateBody, kw_only=True, frozen=True):
    ids: Annotated[Ids | None, _says("whole numbers, one for each row; default those after the largest")] = None


class DeleteBody(Body, kw_only=True, frozen=True):
    ids: Annotated[Ids, _says("whole numbers: those of the rows to forget")]


class PairsBody(Body, kw_only=True, frozen=True):
    queries: Queries
    ids: Annotated[Ids, _says("whole numbers, one for each row: the row that the query came from")]
    groups: Groups = None


class FitBody(Body, kw_only=True, frozen=True):
    queries: Annotated[
        list[Row] | None, _says("rows of numbers whose origins nobody knows, beside the pairs or alone")
    ] = None
    similarity: Annotated[str | None, _says('a word: the similarity to learn; default "auto"')] = None


class RecallRequest(RecallFields, kw_only=True, frozen=True):
    """Checked recall: its queries are (b, d) in single precision."""

    queries: Tensor
    groups: list[str] | None = None

    def thresholds(self) -> Policy | None:
        given = self.policy
        if given is None:
            return None
        return Policy(given["accept_from"], given.get("unknown_from", Policy.unknown_from), given.get("set_from"))


Read = TypeVar("Read", bound=Body)


class Bound(NamedTuple):
    """Largest number of values, and of lists and objects, that are counted in a body."""

    values: int = Limits.body_values
    lists: int = MOST_LISTS


def bound_of(limits: Limits, names: Sequence[str] | int, columns: int, rows: int | None = None) -> Bound:
    """Values that can be of use in a request: rows, and for each column its entries or those of a filter.

    Args:
        names: of the dimensions, or how many there are. Commas and brackets in names are counted as values too.
        rows: the most there may be.
    """
    most, words = limits.queries if rows is None else rows, "" if isinstance(names, int) else "".join(names)
    commas, lists = words.count(","), words.count("[") + words.count("{")
    width = names if isinstance(names, int) else len(names)
    values = most * (width + BESIDE + commas + lists) + columns * limits.values
    return Bound(min(limits.body_values, values), min(limits.body_values, MOST_LISTS + most * lists))


def check_values(body: bytes, bound: Bound) -> None:
    """Refuse a body of too many values before it is read, which would hold up all others.

    A value follows a comma, or is the first of its list or object: these are counted, also within words.
    """
    if len(body) <= min(bound):
        return
    written = np.frombuffer(body, np.uint8)
    commas, lists, objects = (int(np.count_nonzero(written == ord(each))) for each in ",[{")
    if lists + objects > bound.lists:
        raise TooLargeError(f"The body may have {bound.lists} lists and objects; got more. Send fewer rows at a time.")
    if commas + lists + objects > bound.values:
        raise TooLargeError(
            f"The body may have {bound.values} values, as many as there is use for here; got about "
            f"{commas + lists + objects}. Send fewer rows at a time."
        )


def read_body(kind: type[Read], body: bytes, bound: Bound | None = None) -> Read:
    """Decode the JSON of a body that has none but the known fields, and not too many values."""
    check_values(body, bound or Bound())
    try:
        found: Read = _decoder(kind).decode(body)
    except msgspec.ValidationError as error:
        raise InvalidTypeError(_refusal(kind, str(error))) from None
    except RecursionError:
        raise InvalidValueError("The body must be JSON; its lists and objects lie too deep in each other.") from None
    except ValueError as error:
        null = " NaN is no JSON: null stands for a value that was not observed." if b"NaN" in body else ""
        raise InvalidValueError(f"The body must be JSON; it cannot be read: {str(error)[:200]}.{null}") from None
    return found


@cache
def schema_of(kind: type[Body]) -> dict[str, Any]:
    """JSON schema of a body."""
    found: dict[str, Any] = msgspec.json.schema_components([kind])[1][kind.__name__]
    return found


def recall_request(
    asked: RecallBody, dimensions: int, limits: Limits, names: Sequence[str] | None = None
) -> RecallRequest:
    """Check the fields of a recall against each other and against the limits."""
    rows = read_rows("queries", asked.queries, dimensions, limits.queries, names)
    if not 1 <= asked.k <= limits.answers:
        got = asked.k if abs(asked.k) < 10**9 else "a number out of range"
        raise InvalidValueError(f"`k` must be a whole number in 1..{limits.answers}; got {got}.")
    check_where(asked.where, limits)
    fields = {each: getattr(asked, each) for each in asked.__struct_fields__ if each != "queries"}
    request = RecallRequest(**fields | {"queries": rows, "groups": read_groups(asked.groups, len(rows))})
    _check_entries("same", request.same, len(rows))
    if request.policy is not None and "accept_from" not in request.policy:
        raise InvalidValueError('`policy` must have `accept_from`, such as {"accept_from": 0.95}; got none.')
    if request.explain and (len(rows) > limits.explained or request.same is not None):
        raise InvalidValueError(f"`explain` takes at most {limits.explained} queries, and not `same`. Ask for fewer.")
    return request


def read_rows(name: str, rows: Sequence[Row], dimensions: int, most: int, names: Sequence[str] | None = None) -> Tensor:
    """Tensor (b, d) in single precision of rows; NaN where nothing was observed.

    Args:
        names: of the columns, by which a row may name its numbers; None if the patterns have none.
    """
    if len(rows) > most:
        raise ShapeError(f"`{name}` must be at most {most} in a request; got {len(rows)}. Send several requests.")
    known = frozenset(names or ())
    listed = [_ordered(name, row, names, known) if isinstance(row, dict) else row for row in rows]
    for row in listed:
        if len(row) != dimensions:
            raise ShapeError(
                f"`{name}` must be lists of {dimensions} numbers, as the patterns have; got {len(row)} numbers."
            )
    numbers = np.array(listed, dtype=np.float64).reshape(len(listed), dimensions)
    return torch.from_numpy(np.clip(numbers, -LARGEST, LARGEST).astype(np.float32))


def check_where(where: Mapping[str, Any] | None, limits: Limits) -> None:
    """Refuse filters of too many values; the collection checks columns and kinds."""
    for wanted in (where or {}).values():
        if isinstance(wanted, list) and len(wanted) > limits.values:
            raise ShapeError(f"`where` must have at most {limits.values} values for a column; got {len(wanted)}.")


def read_groups(groups: Sequence[str | int] | None, count: int) -> list[str] | None:
    _check_entries("groups", groups, count)
    return None if groups is None else [str(each) for each in groups]


def check_ids(ids: Sequence[int], count: int | None = None) -> None:
    if count is not None and len(ids) != count:
        raise InvalidTypeError(f"`ids` must be {count} whole numbers, one for each row; got {len(ids)}.")
    if len(ids) > MOST_IDS:
        raise ShapeError(f"`ids` must be at most {MOST_IDS} in a request; got {len(ids)}. Send several requests.")


def read_version(value: str) -> int:
    if not value.isascii() or not value.isdigit() or len(value) > 18:
        raise InvalidValueError("The version must be a whole number.")
    return int(value)


@cache
def _decoder(kind: type[Read]) -> "msgspec.json.Decoder[Read]":
    return msgspec.json.Decoder(kind)


KINDS = {
    "null": "nothing",
    "bool": "true or false",
    "int": "a number",
    "float": "a number",
    "str": "a word",
    "array": "a list",
    "object": "an object",
}


def _refusal(kind: type[Body], said: str) -> str:
    """Sentence with the argument, the demand and the kind of value that came, from the words of msgspec."""
    schema = schema_of(kind)
    fields = schema["properties"]
    if strange := re.fullmatch(r"Object contains unknown field `(.*)`", said, re.DOTALL):
        return f"The body may have {sorted(fields)}; got {strange[1][:SHOWN]!r}."
    came = re.search(r"got `(\w+)`|enum value ('.*')", said, re.DOTALL)
    got = "a value out of range" if came is None else KINDS.get(came[1], str(came[2])[:SHOWN])
    if missing := re.fullmatch(r"Object missing required field `(\w+)`", said):
        name, place = missing[1], ""
        got = "nothing"
    elif at := re.search(r"\$\.(\w+)(\S*)`$", said):
        name, place = at[1], f" at `{at[1]}{at[2]}`" if at[2] else ""
    else:
        first = next(iter([*schema.get("required", ()), *fields]))
        return f'The body must be an object such as {{"{first}": ...}}; got {got}.'
    return f"`{name}` must be {fields[name]['description']}; got {got}{place}."


def _ordered(
    name: str, row: Mapping[str, float | None], names: Sequence[str] | None, known: frozenset[str]
) -> list[float | None]:
    """Put the numbers of a row into the order of the columns."""
    if names is None:
        raise InvalidTypeError(f"`{name}` must be lists of numbers: the columns of this collection have no names.")
    if not known.issuperset(row):
        strange = next(each for each in row if each not in known)
        raise InvalidValueError(
            f"`{name}` must name columns of the collection: {told([each[:SHOWN] for each in names])}; got "
            f"{strange[:SHOWN]!r}.{did_you_mean(strange[:SHOWN], names)}"
        )
    return list(map(row.get, names))


def _check_entries(name: str, entries: Sequence[object] | None, count: int) -> None:
    if entries is not None and len(entries) != count:
        raise InvalidTypeError(
            f"`{name}` must be {count} words or numbers, one for each query; got {len(entries)} entries."
        )
