"""Decide what the columns of a table mean: which are numbers, which names the rows, which are ignored and why."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ahop._core.columns import MOST_WORDS, Columns, check_errors, coded, errors_of, words_of
from ahop._core.words import did_you_mean, told
from ahop.cli.running import RequestError
from ahop.cli.tables.formats import read_sheet
from ahop.cli.tables.sheet import Column, Sheet
from ahop.cli.tables.table import Name, Table, names_from
from ahop.cli.talk import Talk

# Columns of these names name rows if their entries differ, also if they are numbers; pandas writes the last three.
NAMES_OF_IDS = ("id", "label", "name", "key", "index", "__index_level_0__", "unnamed: 0", "")
UNKNOWN = "not in the memory"
SHARED = "the other table has no such column"


@dataclass(frozen=True)
class Wanted:
    """Columns and rows that the options ask for.

    Attributes:
        id: the column that names the rows; decided if None.
        roles: columns that mean something else, by what they mean.
        columns: names or wildcards of the columns of numbers; all if empty.
        ignore: names or wildcards of columns that are none.
        categorical: names or wildcards of columns that hold categories, of words or numbers.
        known: names of the columns that the memory has; None if it has none.
        count: how many numbers the memory has in a row; None if there is no memory yet.
    """

    id: str | None = None
    roles: Mapping[str, str] = field(default_factory=dict)
    columns: Sequence[str] = ()
    ignore: Sequence[str] = ()
    categorical: Sequence[str] = ()
    known: Sequence[str] | None = None
    count: int | None = None

    @classmethod
    def by(
        cls,
        id: str | None = None,
        columns: str | None = None,
        ignore: str | None = None,
        categorical: str | None = None,
        **roles: str | None,
    ) -> "Wanted":
        """As the options have it: lists with commas, None for what was not given."""
        given = {role: name for role, name in roles.items() if name is not None}
        return cls(id, given, _split_names(columns), _split_names(ignore), _split_names(categorical))

    def aligned(self, columns: Sequence[str] | None, count: int) -> "Wanted":
        """Align rows that a memory of such patterns is asked."""
        return replace(self, known=columns, count=count)


def opened(path: Path, wanted: Wanted, talk: Talk) -> Sheet:
    """Read a file."""
    asked = [name for name in (wanted.id, *wanted.roles.values()) if name is not None]
    with talk.phase(f"reading {path.name}"):
        return read_sheet(path, [*asked, *_spellings(NAMES_OF_IDS)])


def told_of(table: Table, sheet: Sheet, talk: Talk) -> Table:
    """Say what was decided."""
    for note in (*sheet.notes, table.sentence()):
        talk.note(note)
    return table


def read_table(path: Path, wanted: Wanted, talk: Talk) -> Table:
    """Read a file, decide, and say what was decided."""
    sheet = opened(path, wanted, talk)
    return told_of(choose(sheet, wanted), sheet, talk)


def choose(sheet: Sheet, wanted: Wanted) -> Table:
    """Choose the role of each column of a sheet."""
    words = _words(sheet, wanted)
    coded_columns = {name: _coded(sheet.columns[name], known, sheet) for name, known in words.items()}
    sheet = replace(sheet, columns={**sheet.columns, **coded_columns})
    roles = {role: (name, _entries(sheet, name, role)) for role, name in wanted.roles.items()}
    used = {name for name, _ in roles.values()}
    ignored: dict[str, str] = {}
    id_column = _id_column(sheet, wanted, {*used, *words}, ignored)
    ids = None if id_column is None else names_from(_entries(sheet, id_column, "name"))
    others = [each for each in sheet.columns.values() if each.name not in (*used, id_column, *ignored)]
    numbers = [each for each in others if _is_taken(each, sheet, wanted, ignored)]
    columns: tuple[str, ...] | None
    if wanted.count is None:
        by_place = {place: words[each.name] for place, each in enumerate(numbers) if each.name in words}
        columns = Columns([each.name for each in numbers], by_place) if sheet.has_names else None
        values = _matrix(sheet, numbers)
    else:
        columns, values = _in_order(sheet, numbers, wanted, wanted.count)
    beside = {each.name: list(each.words) for each in others if each.numbers is None and each.words is not None}
    names = {each.name for each in numbers}
    absent = tuple(name for name in columns or () if name not in names) if sheet.has_names else ()
    return Table(sheet.path, values, columns, sheet.has_names, ids, id_column, roles, ignored, beside, absent)


def narrowed(table: Table, others: Sequence[Sheet]) -> Table:
    """Drop the columns of numbers that no other sheet has."""
    if table.columns is None or not others or not all(sheet.has_names for sheet in others):
        return table
    shared = {name for sheet in others for name in sheet.columns}
    kept = [place for place, name in enumerate(table.columns) if name in shared]
    if not kept:
        raise RequestError(
            f"`{table.path}` and `{others[0].path}` share no column: {told(table.columns)}; and "
            f"{told(list(others[0].columns))}."
        )
    words = words_of(table.columns)
    narrow = {new: words[place] for new, place in enumerate(kept) if place in words}
    left_out = {name: SHARED for name in table.columns if name not in shared}
    return replace(
        table,
        values=table.values[:, kept],
        columns=Columns([table.columns[place] for place in kept], narrow),
        ignored={**table.ignored, **left_out},
    )


def _words(sheet: Sheet, wanted: Wanted) -> dict[str, tuple[str, ...]]:
    """Words of the columns that hold categories: as the memory knows them, else as they stand here."""
    if wanted.count is not None:
        known = wanted.known or ()
        return {known[place]: words for place, words in words_of(known).items() if known[place] in sheet.columns}
    found = {each.name: each.categories for each in sheet.columns.values() if each.categories is not None}
    for name in wanted.categorical:
        matching = [each for each in sheet.columns if fnmatchcase(each, name)]
        if not matching or not sheet.has_names:
            near = did_you_mean(name, sheet.columns)
            has = told(list(sheet.columns)) if sheet.has_names else "columns without names"
            raise RequestError(f"`{sheet.path}` has no column {name!r} for `--categorical`. It has {has}.{near}")
        found.update({each: _words_of(sheet.columns[each], sheet) for each in matching})
    return found


def _words_of(column: Column, sheet: Sheet) -> tuple[str, ...]:
    texts = column.texts(str(sheet.path))
    words = sorted({text for text in texts if text is not None})
    if len(words) > MOST_WORDS:
        raise RequestError(
            f"`{sheet.path}`: a column of categories must have at most {MOST_WORDS} different words; {column.name!r} "
            f"has {len(words)}. Leave it out of `--categorical`."
        )
    return tuple(words)


def _coded(column: Column, words: Sequence[str], sheet: Sheet) -> Column:
    """The numbers of words."""
    if column.categories == tuple(words):
        return column
    texts = column.texts(str(sheet.path))
    return replace(column, numbers=coded(texts, words).astype(np.float32), words=texts)


def _id_column(sheet: Sheet, wanted: Wanted, used: Collection[str], ignored: dict[str, str]) -> str | None:
    if wanted.id is not None:
        return _column(sheet, wanted.id, "--id").name
    known = set(wanted.known or ())
    free = [each for each in sheet.columns.values() if each.name not in used and each.name not in known]
    named = [each for each in free if each.name.lower() in NAMES_OF_IDS and not _is_place(each, sheet)]
    for column in [*named, *(each for each in free if each.numbers is None)]:
        texts = None if column.words is None and column.numbers is None else column.texts(str(sheet.path))
        if texts is not None and None not in texts and len(set(texts)) == len(texts):
            return column.name
        if column in named and column.numbers is not None:
            ignored[column.name] = f"a name, but not of one row each; --id {column.name} takes it all the same"
    return None


def _is_taken(column: Column, sheet: Sheet, wanted: Wanted, ignored: dict[str, str]) -> bool:
    """True if a column holds numbers to use; otherwise the reason is noted."""
    name, why = column.name, None
    is_asked = any(fnmatchcase(name, each) for each in wanted.columns)
    if any(fnmatchcase(name, each) for each in wanted.ignore):
        why = "as asked"
    elif wanted.columns and not is_asked:
        why = "not among --columns"
    elif wanted.known is not None and sheet.has_names and name not in wanted.known:
        near = did_you_mean(name, [each for each in wanted.known if each not in sheet.columns])
        why = f"{UNKNOWN}.{near}" if near else UNKNOWN
    elif not sheet.has_names and not _is_place(column, sheet):
        why = "it stands beside the rows"
    elif column.numbers is None:
        if is_asked or (wanted.known is not None and name in wanted.known):
            raise RequestError(f"`{sheet.path}`: the column {name!r} must hold numbers; it holds {column.kind}.")
        why = column.kind
    elif wanted.count is None and bool(np.isnan(column.numbers).all()):
        why = "it is empty"
    if why is not None:
        ignored[name] = why
    return why is None


def _in_order(
    sheet: Sheet, numbers: Sequence[Column], wanted: Wanted, count: int
) -> tuple[tuple[str, ...] | None, NDArray[Any]]:
    """The numbers as the memory has them: by name where both have names, else in the order of the file."""
    columns = None if wanted.known is None else Columns(wanted.known, words_of(wanted.known), errors_of(wanted.known))
    if columns is not None and sheet.has_names:
        by_name = {each.name: each for each in numbers}
        if not by_name:
            raise RequestError(
                f"`{sheet.path}` has none of the columns that the memory knows: {told(columns)}. It has "
                f"{told(list(sheet.columns))}."
            )
        check_errors(str(sheet.path), by_name, columns)
        return columns, _matrix(sheet, [by_name.get(name) for name in columns])
    if len(numbers) != count:
        raise RequestError(
            f"`{sheet.path}` must have {count} columns of numbers, as the memory has; it has {len(numbers)}. "
            "`--columns` and `--ignore` choose among them."
        )
    return columns, _matrix(sheet, numbers)


def _matrix(sheet: Sheet, columns: Sequence[Column | None]) -> NDArray[Any]:
    """(n, d); NaN for columns that are not there."""
    if not columns:
        raise RequestError(
            f"`{sheet.path}` has no columns of numbers. It has {told(list(sheet.columns))}, all of them words or names."
        )
    found = [each.numbers for each in columns if each is not None and each.numbers is not None]
    dtype = np.float32 if all(each.dtype == np.float32 for each in found) else np.float64
    values = np.full((sheet.rows, len(columns)), np.nan, dtype)
    for place, column in enumerate(columns):
        if column is not None and column.numbers is not None:
            values[:, place] = column.numbers
            infinite = np.isinf(values[:, place]).nonzero()[0]
            if len(infinite):
                raise RequestError(
                    f"`{sheet.path}`: the column {column.name!r} must be finite; row {infinite[0]} is infinite. Leave "
                    "empty what was not observed."
                )
    return values


def _column(sheet: Sheet, name: str, flag: str) -> Column:
    if name not in sheet.columns:
        has = told(list(sheet.columns))
        near = did_you_mean(name, sheet.columns)
        raise RequestError(f"`{sheet.path}` has no column {name!r} for `{flag}`. It has {has}.{near}")
    return sheet.columns[name]


def _entries(sheet: Sheet, name: str, role: str) -> list[str]:
    """The entries of a column that must be there in all rows."""
    texts = _column(sheet, name, f"--{role}").texts(str(sheet.path))
    if None in texts:
        raise RequestError(f"`{sheet.path}`: the column {name!r}, the {role}, is empty in row {texts.index(None)}.")
    return [text for text in texts if text is not None]


def _is_place(column: Column, sheet: Sheet) -> bool:
    """True for a column of an array, which has a number for a name."""
    return not sheet.has_names and column.name.isdigit()


def _split_names(names: str | None) -> tuple[str, ...]:
    return () if names is None else tuple(each.strip() for each in names.split(",") if each.strip())


def _spellings(names: Sequence[str]) -> list[str]:
    return [spelled for name in names for spelled in (name, name.upper(), name.capitalize(), name.title())]


def origins_of(texts: Sequence[str], labels: Sequence[Name] | None, count: int, path: Path) -> list[Name]:
    """The origins of copies as the stored patterns are called; their row numbers, if these have no names."""
    known: dict[str, Name] = {str(label): label for label in (range(count) if labels is None else labels)}
    strange = [text for text in texts if text not in known]
    if strange:
        kind = f"row numbers, 0 to {count - 1}, as the patterns have no names" if labels is None else "stored patterns"
        raise RequestError(f"`{path}`: origins must be {kind}; got {told(list(dict.fromkeys(strange)))}.")
    return [known[text] for text in texts]
