"""A table after it was decided what its columns mean."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from ahop._core.words import told

Name = str | int
# What eight bytes hold; larger numbers are words.
SMALLEST, LARGEST = -(2**63), 2**63 - 1


@dataclass(frozen=True)
class Table:
    """Rows of numbers, and what is known of each.

    Attributes:
        values: (n, d), NaN where nothing was observed.
        dimensions: the names of their columns, as the memory has them; None if they have none.
        has_names: whether the file has names for them.
        ids: what the rows are called; None if they are but counted.
        id_column: the column that says so.
        roles: by what they were asked for as, such as "group": the name of a column, and its entries.
        ignored: columns that are none of these, and why.
        words: columns of words among those.
        absent: columns of the memory that the file has not got.
    """

    path: Path
    values: NDArray[Any]
    columns: tuple[str, ...] | None
    has_names: bool
    ids: list[Name] | None = None
    id_column: str | None = None
    roles: dict[str, tuple[str, list[str]]] = field(default_factory=dict)
    ignored: dict[str, str] = field(default_factory=dict)
    words: dict[str, list[str | None]] = field(default_factory=dict)
    absent: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.values)

    @property
    def names(self) -> list[Name]:
        """Labels of the rows, or their numbers."""
        return list(range(len(self))) if self.ids is None else self.ids

    def role(self, name: str) -> list[str] | None:
        """The entries of a column that was asked for; None if it was not."""
        return self.roles[name][1] if name in self.roles else None

    def sentence(self) -> str:
        """Sentence on the roles of the columns."""
        parts = [f"{self.path.name}: {len(self)} rows, {self._numbers()}"]
        if self.id_column is not None:
            named = repr(self.id_column) if self.id_column else "the column without a name"
            parts.append(f"the rows are named by {named}")
        parts += [f"{column!r} is the {role}" for role, (column, _) in self.roles.items()]
        by_reason: dict[str, list[str]] = {}
        for name, why in self.ignored.items():
            by_reason.setdefault(why, []).append(name)
        if by_reason:
            parts.append("ignored: " + "; ".join(f"{told(names)} ({why})" for why, names in by_reason.items()))
        return "; ".join(parts) + "."

    def _numbers(self) -> str:
        count = self.values.shape[1]
        if self.columns is None:
            return f"{count} columns of numbers{'' if self.has_names else ' without names'}"
        there = [name for name in self.columns if name not in self.absent]
        ends = ", ".join(there if len(there) < 3 else (there[0], "...", there[-1]))
        if self.absent:
            return f"{len(there)} of the memory's {count} columns ({ends}); the others not observed"
        return f"{count} columns of numbers ({ends})"


def names_from(texts: Sequence[str]) -> list[Name]:
    """Whole numbers, if all are written as such; else words."""
    if all(re.fullmatch(r"0|-?[1-9][0-9]{0,18}", text) and SMALLEST <= int(text) <= LARGEST for text in texts):
        return [int(text) for text in texts]
    return list(texts)
