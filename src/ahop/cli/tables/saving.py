"""Write files: whole or not at all, and never over another one unless told to."""

import csv
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np

from ahop._core.files import replacing
from ahop._core.optional import arrow_files
from ahop.cli.running import RequestError
from ahop.cli.talk import plain

Columns = Mapping[str, Sequence[Any]]


def check_output(path: Path, force: bool, endings: Sequence[str] = ()) -> None:
    """Refuse a file that cannot be written, before any work is done."""
    if endings and path.suffix.lower() not in endings:
        raise RequestError(f"`{path}` must end in one of {', '.join(endings)}; got {path.suffix!r}.")
    if path.is_dir():
        raise RequestError(f"`{path}` is a folder: name a file.")
    if path.exists() and not force:
        raise RequestError(f"`{path}` is there already. Give another name, or `--force` to write over it.")
    if not path.absolute().parent.is_dir():
        raise RequestError(f"`{path.parent}` is no folder. Make it first: `mkdir -p {path.parent}`.")


def check_table(path: Path, force: bool) -> None:
    """Check a path for a table."""
    check_output(path, force, tuple(WRITERS))
    if path.suffix.lower() in (".parquet", ".feather", ".arrow"):
        arrow_files()


@contextmanager
def written(path: Path, force: bool) -> Iterator[Path]:
    """A path to write to, which takes its place at the end of the block."""
    check_output(path, force)
    with replacing(path.absolute()) as beside:
        yield beside


def write_table(path: Path, columns: Columns, force: bool) -> None:
    """Columns of one length, in the format that the name ends in."""
    with written(path, force) as beside, beside.open("wb") as file:
        WRITERS[path.suffix.lower()](file, columns)


def write_text(path: Path, text: str, force: bool) -> None:
    with written(path, force) as beside:
        beside.write_text(text, encoding="utf-8")


def _write_csv(file: IO[bytes], columns: Columns) -> None:
    from io import TextIOWrapper

    with TextIOWrapper(file, encoding="utf-8", newline="", write_through=True) as text:
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(zip(*(plain(values) for values in columns.values()), strict=True))
        text.flush()


def _write_json(file: IO[bytes], columns: Columns) -> None:
    rows = zip(*(plain(values) for values in columns.values()), strict=True)
    file.write(json.dumps([dict(zip(columns, row, strict=True)) for row in rows], allow_nan=False, indent=1).encode())


def _arrow_table(columns: Columns) -> Any:
    return arrow_files().table({name: _one_kind(plain(values)) for name, values in columns.items()})


def _one_kind(values: list[Any]) -> list[Any]:
    """Names that are partly numbers are words."""
    is_mixed = len({isinstance(each, str) for each in values if each is not None}) > 1
    return [None if each is None else str(each) for each in values] if is_mixed else values


def _write_parquet(file: IO[bytes], columns: Columns) -> None:
    arrow_files().parquet.write_table(_arrow_table(columns), file)


def _write_feather(file: IO[bytes], columns: Columns) -> None:
    arrow_files().feather.write_feather(_arrow_table(columns), file)


def _arrays(columns: Columns) -> dict[str, Any]:
    """Without objects, which only pickle could save: gaps are NaN, and empty words."""
    found = {}
    for name, values in columns.items():
        given = _one_kind(plain(values))
        is_words = any(isinstance(each, str) for each in given)
        found[name] = np.array([("" if is_words else np.nan) if each is None else each for each in given])
    return found


def _write_npz(file: IO[bytes], columns: Columns) -> None:
    np.savez(file, **_arrays(columns))


def _write_npy(file: IO[bytes], columns: Columns) -> None:
    """One array whose entries have the columns as fields."""
    arrays = _arrays(columns)
    table = np.empty(len(next(iter(arrays.values()))), [(name, array.dtype) for name, array in arrays.items()])
    for name, array in arrays.items():
        table[name] = array
    np.save(file, table, allow_pickle=False)


WRITERS: dict[str, Callable[[IO[bytes], Columns], None]] = {
    ".csv": _write_csv,
    ".json": _write_json,
    ".parquet": _write_parquet,
    ".feather": _write_feather,
    ".arrow": _write_feather,
    ".npy": _write_npy,
    ".npz": _write_npz,
}
