"""CSV: one row in each line, a comma, semicolon, tab or bar between cells. The standard library is enough.

Cells become numbers block by block, so that a large file takes the room of its numbers and not of its text. Words are
kept of columns that have some in the first block, and of those that name rows.
"""

import csv
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ahop._core.free_memory import check_free_memory
from ahop.cli.tables.sheet import Column, Sheet, check_names
from ahop.errors import FileFormatError

DELIMITERS = ",;\t|"
SIDES = {"true": 1.0, "false": 0.0}
GAPS = frozenset(("", "na", "n/a", "nan", "null", "none", "nil", "-", "?", "<na>"))
BLOCK = 4096
# A number of at least two characters and a comma becomes eight bytes; a block and its text come on top.
GROWTH = 6
LONGEST_NAME = 40


def read_delimited(path: Path, keep: Iterable[str]) -> Sheet:
    """The columns of a CSV file.

    Args:
        keep: names of columns whose words are wanted, also if they look like numbers.
    """
    check_free_memory(GROWTH * path.stat().st_size, f"`{path}`, as text,")
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            delimiter = _delimiter(file.readline())
            file.seek(0)
            return _read(path, csv.reader(file, delimiter=delimiter), delimiter, frozenset(keep))
    except UnicodeDecodeError as error:
        raise FileFormatError(f"`{path}` must be a text in UTF-8: {error.reason}. Save it as UTF-8.") from error
    except csv.Error as error:
        raise FileFormatError(f"`{path}` is no CSV file that can be read: {error}.") from error


def _delimiter(line: str) -> str:
    """Delimiter: the one that occurs most often in the header."""
    return max(DELIMITERS, key=lambda each: (line.count(each), -DELIMITERS.index(each)))


def _read(path: Path, lines: Iterator[list[str]], delimiter: str, keep: frozenset[str]) -> Sheet:
    first = next(lines, None)
    if first is None or not any(cell.strip() for cell in first):
        raise FileFormatError(f"`{path}` is empty. It needs a line of names, and a line for each row.")
    has_names = any(_number(cell, delimiter) is None for cell in first)
    names = [cell.strip() for cell in first] if has_names else [str(place) for place in range(len(first))]
    check_names(path, names)
    building = [_Building(name, name in keep, delimiter) for name in names]
    rows = 0
    for block in _blocks([] if has_names else [first], lines):
        for line in block:
            rows += 1
            if len(line) != len(names):
                raise FileFormatError(
                    f"`{path}`, row {rows}: {len(line)} cells where {len(names)} are named. Mend this line."
                )
        for column, cells in zip(building, zip(*block, strict=True), strict=True):
            column.add(cells)
    notes = [] if has_names else [f"{path.name}: no line of names, as the first line holds numbers only."]
    if any(column.has_commas for column in building):
        notes.append(f"{path.name}: a comma is the decimal mark.")
    return Sheet(path, {each.name: each.column() for each in building}, rows, has_names, tuple(notes))


def _blocks(start: list[list[str]], lines: Iterator[list[str]]) -> Iterator[list[list[str]]]:
    block = start
    for line in lines:
        if line:  # an empty line is none
            block.append(line)
        if len(block) >= BLOCK:
            yield block
            block = []
    if block:
        yield block


class _Building:
    """A column while it is read."""

    def __init__(self, name: str, is_kept: bool, delimiter: str) -> None:
        self.name, self._is_kept, self._delimiter = name, is_kept, delimiter
        self._numbers: list[NDArray[np.float64]] | None = []
        self._words: list[str | None] | None = []
        self._is_first = True
        self._kind = "words"
        self.has_commas = False

    def add(self, cells: Sequence[str]) -> None:
        stripped = [cell.strip() for cell in cells]
        if self._numbers is not None:
            self._add_numbers(stripped)
        if self._is_first and self._numbers is not None and not self._is_kept:
            self._words = None  # numbers need no text
        self._is_first = False
        if self._words is not None:
            self._words.extend(None if each.lower() in GAPS else each for each in stripped)

    def _add_numbers(self, cells: list[str]) -> None:
        assert self._numbers is not None
        known = ["nan" if cell.lower() in GAPS else cell for cell in cells]
        try:
            self._numbers.append(np.array(known, dtype=np.float64))
            return
        except ValueError:
            found = [_number(cell, self._delimiter) for cell in cells]
        words = [cell for cell, number in zip(cells, found, strict=True) if number is None]
        if words:
            self._numbers = None
            self._kind = f"words, such as {words[0][:LONGEST_NAME]!r}"
            return
        self.has_commas = self.has_commas or any("," in cell for cell in cells)
        self._numbers.append(np.array(found, dtype=np.float64))

    def column(self) -> Column:
        numbers = None if self._numbers is None else np.concatenate([np.empty(0), *self._numbers])
        return Column(self.name, numbers, self._words, self._kind)


def _number(cell: str, delimiter: str) -> float | None:
    """NaN for a gap, None for words; where semicolons part cells, a comma may be the decimal mark."""
    stripped, small = cell.strip(), cell.strip().lower()
    if small in GAPS or small in SIDES:
        return SIDES.get(small, float("nan"))
    try:
        return float(stripped.replace(",", ".") if delimiter == ";" else stripped)
    except ValueError:
        return None
