"""Columns as a file has them, before anybody has decided what they mean."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from ahop.errors import InvalidValueError

# So many cells are told in an error.
TOLD = 3


@dataclass(frozen=True)
class Column:
    """One column.

    Attributes:
        numbers: (n,), NaN where there is a gap; None if it holds something else.
        words: the same as text, None where there is a gap; None if they were not kept.
        kind: what it holds, if no numbers: "words", "dates".
        categories: words that the numbers stand for, where the file says that these are categories.
    """

    name: str
    numbers: NDArray[Any] | None
    words: Sequence[str | None] | None = None
    kind: str = "words"
    categories: tuple[str, ...] | None = None

    def texts(self, where: str) -> list[str | None]:
        """As text, exactly as it stands in the file."""
        if self.words is not None:
            return list(self.words)
        if self.numbers is None:
            raise InvalidValueError(f"`{where}`: the column {self.name!r} holds {self.kind}, which name nothing.")
        if self.categories is not None:
            return [None if each != each else self.categories[int(each)] for each in self.numbers.tolist()]
        return [_text(each) for each in self.numbers.tolist()]


@dataclass(frozen=True)
class Sheet:
    """All columns of a file.

    Attributes:
        has_names: whether the columns have names of their own; else they are counted: "0", "1", "2".
        notes: what was decided when it was read.
    """

    path: Path
    columns: dict[str, Column]
    rows: int
    has_names: bool
    notes: tuple[str, ...] = ()


def _text(number: float) -> str | None:
    if number != number:
        return None
    return str(int(number)) if number == int(number) else repr(number)


def check_names(path: Path, names: Sequence[str]) -> None:
    """Columns that are called the same cannot be told apart."""
    twice = [name for name in dict.fromkeys(names) if names.count(name) > 1] if len(set(names)) < len(names) else []
    if twice:
        told = ", ".join(repr(name) for name in twice[:TOLD])
        raise InvalidValueError(f"`{path}`: columns must have different names; more than once there is {told}.")
