"""Expectations and class probabilities under the posterior of an answer."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ahop._core.arrays import Kind
from ahop._core.frames import is_column, is_frame
from ahop._core.labels import Label, as_label, entries
from ahop._core.rows import as_numbers
from ahop.errors import InvalidTypeError, InvalidValueError

# Something known of each stored pattern: in their order, or by label.
PerStored: TypeAlias = Iterable[Any] | Mapping[Any, Any]


@dataclass(frozen=True)
class ClassMass(Generic[Kind]):
    """Probability of each class, by the answers that belong to it.

    Attributes:
        classes: (c,) the distinct classes, in the order of their first appearance.
        mass: (b, c) the posterior of the answers in each class. What is missing to one was not among the answers.
        best: (b,) the class of the largest mass; None where no answer has a class.
    """

    classes: NDArray[np.object_]
    mass: Kind
    best: NDArray[np.object_]


@dataclass(frozen=True)
class Answers:
    """Rows (b, k), their posterior (b, k) in double precision, and their labels (b, k) if they have any."""

    indices: NDArray[Any]
    posterior: NDArray[Any]
    labels: NDArray[np.object_] | None


def expected(answers: Answers, values: PerStored) -> NDArray[Any]:
    r"""$\sum_k p_k v_k / \sum_k p_k$ over the answers whose value is known, (b,) or (b, c); NaN where there is none."""
    table = as_numbers("values", list(values.values()) if isinstance(values, Mapping) else values)
    rows, where = _distinct(answers.indices)
    places = _places("values", values, len(table), rows, _keys(answers, rows))
    known = table.astype(np.float64)[places]
    each = np.where(_beside(rows >= 0, known), known, np.nan)[where]
    weights = np.where(np.isnan(each), 0.0, _beside(answers.posterior, each))
    mass = weights.sum(1)
    mean = (weights * np.nan_to_num(each)).sum(1) / np.where(mass > 0, mass, 1.0)
    return np.where(mass > 0, mean, np.nan).astype(table.dtype)


def mass_of(answers: Answers, classes: PerStored) -> ClassMass[NDArray[Any]]:
    """The posterior of the answers in each class. Patterns whose class is None or NaN belong to none."""
    given = list(classes.values()) if isinstance(classes, Mapping) else entries("classes", classes)
    try:
        known = list(dict.fromkeys(each for each in given if not _is_missing(each)))
    except TypeError as error:
        raise InvalidTypeError(
            "`classes` must be words or numbers, one for each pattern; got what cannot be told."
        ) from error
    number = {each: which for which, each in enumerate(known)}
    codes = np.array([-1 if _is_missing(each) else number[each] for each in given], dtype=np.int64)
    rows, where = _distinct(answers.indices)
    places = _places("classes", classes, len(given), rows, _keys(answers, rows))
    own = np.where(rows >= 0, codes[places], -1)[where]
    mass = np.zeros((len(where), len(known)))
    query, answer = np.nonzero(own >= 0)
    np.add.at(mass, (query, own[query, answer]), answers.posterior[query, answer])
    distinct = np.empty(len(known) + 1, dtype=object)
    for which, each in enumerate(known):  # one by one: a tuple is a class, not a row of them
        distinct[which] = each
    best = np.where(mass.max(1) > 0, mass.argmax(1), -1) if known else np.full(len(where), -1)
    return ClassMass(distinct[:-1], mass, distinct[best])


def _distinct(indices: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """The rows that were answered, and where each answer finds its own."""
    rows, where = np.unique(indices, return_inverse=True)
    return rows, where.reshape(indices.shape)


def _keys(answers: Answers, rows: NDArray[Any]) -> list[Label | None]:
    """Name each of these rows: its label, or its number; None if it is no row."""
    if answers.labels is None:
        return list(rows.tolist())
    called = dict(zip(answers.indices.ravel().tolist(), answers.labels.ravel().tolist(), strict=True))
    return [called[row] for row in rows.tolist()]


def _places(name: str, given: PerStored, count: int, rows: NDArray[Any], keys: list[Label | None]) -> NDArray[Any]:
    """Find the one of `count` entries that belongs to each row; any for number -1, which is no answer."""
    known = _names(name, given)
    if not count and len(rows):
        raise InvalidValueError(f"`{name}` must have an entry for each stored pattern; got none.")
    if known is None:
        if len(rows) and int(rows.max()) >= count:
            raise InvalidValueError(
                f"`{name}` must have an entry for each stored pattern; got {count}, and row {int(rows.max())} is among "
                "the answers. For those of some patterns pass a mapping from labels or rows."
            )
        return rows.clip(0)
    places = [None if key is None else known.get(key) for key in keys]
    for row, key, place in zip(rows.tolist(), keys, places, strict=True):
        if row >= 0 and place is None:
            raise InvalidValueError(
                f"`{name}` must have an entry for {key!r}, which is among the answers. Give None where it is not known."
            )
    return np.array([place or 0 for place in places], dtype=np.int64)


def _names(name: str, given: PerStored) -> dict[Label, int] | None:
    """Position of the entry of each label; None if they are in the order of the stored patterns."""
    if isinstance(given, Mapping):
        index = list(given)
    elif hasattr(given, "iloc") and (is_frame(given) or is_column(given)):
        index = given.index.tolist()  # type: ignore[attr-defined]
    else:
        return None
    known = {as_label(each): place for place, each in enumerate(index)}
    if len(known) != len(index):
        raise InvalidValueError(f"`{name}` must have one entry for each label; got {len(index)} for {len(known)}.")
    return known


def _beside(values: NDArray[Any], like: NDArray[Any]) -> NDArray[Any]:
    """Take all columns, if there are columns."""
    return values.reshape(*values.shape, *[1] * (like.ndim - values.ndim))


def _is_missing(value: object) -> bool:
    return value is None or type(value).__name__ == "NAType" or (isinstance(value, float) and value != value)
