"""Names of columns, and the words of those that hold categories."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from ahop._core.checks import check_count
from ahop._core.words import did_you_mean, told
from ahop.errors import InvalidValueError

# A column of more different words holds names or texts, and no table of pairs of values could be learned.
MOST_WORDS = 64


@final
class Columns(tuple[str, ...]):
    """Names of columns.

    Attributes:
        words: by place, of columns that hold categories: the number of a word is its place among these. A word that is
            none of them has the number behind them.
        errors: by place, of columns whose standard deviations are known: the place of the column that holds these.
    """

    words: Mapping[int, tuple[str, ...]]
    errors: Mapping[int, int]

    def __new__(
        cls,
        names: Iterable[str],
        words: Mapping[int, tuple[str, ...]] | None = None,
        errors: Mapping[int, int] | None = None,
    ) -> "Columns":
        self = super().__new__(cls, names)
        self.words, self.errors = dict(words or {}), dict(errors or {})
        return self


def words_of(columns: Sequence[str] | None) -> Mapping[int, tuple[str, ...]]:
    """The words of the columns that hold categories, by place."""
    return columns.words if isinstance(columns, Columns) else {}


def errors_of(columns: Sequence[str] | None) -> Mapping[int, int]:
    """The places of the columns of standard deviations, by those of their values."""
    return columns.errors if isinstance(columns, Columns) else {}


def check_errors(name: str, given: Collection[str], columns: Sequence[str] | None) -> None:
    """Refuse rows that name a value and not the column of its standard deviations: without it, it would say nothing."""
    for value, error in errors_of(columns).items():
        if columns is not None and columns[value] in given and columns[error] not in given:
            raise InvalidValueError(
                f"`{name}` must have the column {columns[error]!r}, the standard deviations of {columns[value]!r}. "
                "Where a value is exact, write zero."
            )


def described(columns: Sequence[str]) -> dict[str, Any]:
    """Names and words as a file keeps them."""
    words = {str(place): list(each) for place, each in words_of(columns).items()}
    errors = {str(place): each for place, each in errors_of(columns).items()}
    found: dict[str, Any] = {"dimensions": list(columns)}
    return found | ({"categories": words} if words else {}) | ({"errors": errors} if errors else {})


def as_columns(manifest: Mapping[str, Any], count: int) -> Columns | None:
    """The names of so many dimensions as a file has them, if it has any, with their words."""
    given = manifest.get("dimensions")
    if given is None:
        return None
    if not _are_words(given):
        raise InvalidValueError("the names of the dimensions must be words.")
    if len(given) != count or len(set(given)) != count:
        raise InvalidValueError(f"the names of the dimensions must be {count}, all different.")
    categories, places = manifest.get("categories", {}), {str(place) for place in range(count)}
    if (
        not isinstance(categories, dict)
        or not categories.keys() <= places
        or not all(map(_are_words, categories.values()))
    ):
        raise InvalidValueError("the categories of the dimensions must be lists of words.")
    errors = manifest.get("errors", {})
    if not isinstance(errors, dict) or not {*errors, *map(str, errors.values())} <= places:
        raise InvalidValueError("the standard deviations of the dimensions must be places of dimensions.")
    words = {int(place): tuple(words) for place, words in categories.items()}
    return Columns(given, words, {int(place): int(each) for place, each in errors.items()})


def coded(texts: Sequence[str | None], words: Sequence[str]) -> NDArray[np.float64]:
    """The numbers of texts; NaN for those that are not there."""
    number = {word: place for place, word in enumerate(words)}
    found = [np.nan if text is None else number.get(text, len(words)) for text in texts]
    return np.array(found, dtype=np.float64)


def word_at(value: float | None, words: Sequence[str] | None) -> float | str | None:
    """The word that a number stands for, if the column has words."""
    if words is None or value is None or value != value:
        return value
    place = int(value)
    return words[place] if 0 <= place < len(words) else "another"


def place_of(name: str, given: str | int, dimensions: int, columns: Sequence[str] | None) -> int:
    """The place of a column that an argument names, or counts from zero."""
    if isinstance(given, str):
        if given in (columns or ()):
            return list(columns or ()).index(given)
        known = "none has a name" if columns is None else f"there are {told(list(columns))}"
        raise InvalidValueError(f"`{name}` names a column {given!r}, and {known}.{did_you_mean(given, columns or ())}")
    place = check_count(name, given, 0)
    if place >= dimensions:
        raise InvalidValueError(f"`{name}` must be columns from 0 to {dimensions - 1}; got {place}.")
    return place


def _are_words(given: object) -> bool:
    return isinstance(given, list) and all(isinstance(each, str) for each in given)
