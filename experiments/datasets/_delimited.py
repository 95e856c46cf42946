"""Text in rows and columns."""

import csv
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from io import StringIO
from math import isfinite, nan

import numpy as np
from numpy.typing import NDArray

from ahop.errors import FileFormatError


@dataclass(frozen=True)
class Rows:
    """Cells by column, as they were written.

    Attributes:
        where: The file, for the sentences that complain of it.
        lines: The line of the file on which each row ends.
    """

    where: str
    columns: dict[str, list[str]]
    lines: list[int]

    def numbers(self, name: str, missing: Collection[str] = ()) -> NDArray[np.float64]:
        """A column of finite numbers, NaN where a cell is one of `missing`."""
        found = []
        for cell, line in zip(self.columns[name], self.lines, strict=True):
            if cell in missing:
                found.append(nan)
                continue
            try:
                value = float(cell)
            except ValueError:
                value = nan
            # Python also reads `1_000`, `nan` and `inf` as numbers. No table means them so.
            if not isfinite(value) or "_" in cell:
                raise FileFormatError(f"`{self.where}`, line {line}: `{name}` must be a number; got {_short(cell)}.")
            found.append(value)
        return np.array(found)


def parse_rows(
    content: bytes, where: str, separator: str = ",", names: Iterable[str] = (), comment: str | None = None
) -> Rows:
    """Read quoted or plain cells; every row must have as many as the first line has names.

    Args:
        names: The columns of a file that does not name them itself.
        comment: How a line begins that is no row.
    """
    reader = csv.reader(
        StringIO(_text(content, where), newline=""), delimiter=separator, skipinitialspace=True, strict=True
    )
    named = list(names)
    rows: list[list[str]] = []
    lines: list[int] = []
    try:
        for row in reader:
            if not row or (comment is not None and row[0].startswith(comment)):
                continue
            if not named:
                named = row
                continue
            if len(row) != len(named):
                raise FileFormatError(
                    f"`{where}`, line {reader.line_num}: {len(named)} cells were expected; got {len(row)}."
                )
            rows.append(row)
            lines.append(reader.line_num)
    except csv.Error as error:
        raise FileFormatError(f"`{where}`, line {reader.line_num}: {error}.") from error
    if not rows:
        raise FileFormatError(f"`{where}` holds no rows.")
    if len(set(named)) != len(named):
        raise FileFormatError(f"`{where}`, line 1: two columns have the same name.")
    return Rows(where, {name: list(cells) for name, cells in zip(named, zip(*rows, strict=True), strict=True)}, lines)


def encode(cells: list[str], missing: Collection[str] = ()) -> tuple[NDArray[np.float64], tuple[str, ...]]:
    """Each cell as the place of its word among all words, NaN where it is one of `missing`."""
    words = tuple(sorted(set(cells).difference(missing), key=_order))
    place = {word: float(at) for at, word in enumerate(words)}
    return np.array([place.get(cell, np.nan) for cell in cells]), words


def _order(word: str) -> tuple[bool, float, str]:
    """Numbers by size and before words, so that 10 follows 9."""
    try:
        return False, float(word), word
    except ValueError:
        return True, 0.0, word


def _text(content: bytes, where: str) -> str:
    try:
        return content.decode("ascii")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise FileFormatError(f"`{where}`, line {line}: byte {error.start} is no plain text.") from error


def _short(cell: str) -> str:
    return repr(cell if len(cell) <= 40 else f"{cell[:40]}...")
