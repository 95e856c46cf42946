"""Checksums of the files of a table on a local disk: written before a version is acknowledged, compared before a read.

Each commit adds one list of checksums, a file that is named by its own. What was compared once is not read again unless
the file changes.
"""

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import file_digest
from pathlib import Path
from threading import Lock
from typing import Any

from ahop._core.files import digest, make_folder, replacing
from ahop._core.json import parse_json
from ahop.errors import FileFormatError, UnavailableError

CHECKSUMS, DATA = "_checksums", "data"
SUFFIX = ".json"
# Entries about files that went, before it is worth looking for them.
MOST_FORGOTTEN = 1000

_lock = Lock()
# By path: what the file was when its checksum was right, and that checksum.
_compared: dict[Path, tuple[tuple[int, int, int], str]] = {}


@dataclass(frozen=True)
class _Lists:
    """The lists of a table that were read, by name, and all that is in them; a list never changes."""

    names: frozenset[str] = frozenset()
    checksums: Mapping[str, str] = field(default_factory=dict)


_lists: dict[Path, _Lists] = {}


def record(folder: Path, files: Iterable[Path]) -> None:
    """Write down the checksums of files that have none yet; durable when this returns."""
    known = recorded(folder)
    new = {_name(folder, path): _checksum(path) for path in files if _name(folder, path) not in known}
    if new:
        _write(folder, new)


def recorded(folder: Path) -> Mapping[str, str]:
    """The checksum of each file, by its path in the table. A damaged list is left out, and read again."""
    while True:
        there = _names(folder)
        with _lock:
            before = _lists.get(folder, _Lists())
        if before.names == there:
            return before.checksums
        if not before.names <= there:  # lists were joined
            before = _Lists()
        found = {name: _read(folder / CHECKSUMS / name) for name in there - before.names}
        if None in found.values():
            continue  # a list went while we read, as they were joined: the joined one has what was in it
        lists = {name: each for name, each in found.items() if each}
        checksums = dict(before.checksums)
        for name in sorted(lists):
            checksums |= lists[name]
        with _lock:
            _lists[folder] = _Lists(before.names.union(lists), checksums)
        return checksums


def verify(folder: Path, files: Iterable[Path]) -> None:
    """Compare files with what was written down about them.

    Raises:
        FileFormatError: a file is damaged or missing, or nothing was written down about it.
        UnavailableError: it cannot be read at this moment.
    """
    known = recorded(folder)
    _forget_missing(folder, known)
    for path in files:
        name = _name(folder, path)
        if name not in known:
            raise FileFormatError(
                f"`{path}` has no checksum: the list that had it is missing or damaged. Restore `{folder}` from a "
                f"copy; or, where there is none, `ahop doctor {folder} --repair` reads all rows and writes it anew."
            )
        if not is_right(path, known[name]):
            raise FileFormatError(
                f"`{path}` is damaged: its checksum does not fit what is in it. Restore it from a copy, or open an "
                "older version that does not need it."
            )


def verify_version(folder: Path, table: Any) -> None:
    """The files that hold the rows of an open table, and its deletions."""
    verify(folder, files_of_version(folder, table))


def files_of_version(folder: Path, table: Any) -> Iterator[Path]:
    return _files_of(folder, table.get_fragments())


def verify_fragments(folder: Path, fragments: Iterable[Any]) -> None:
    """Verify some parts of a table."""
    verify(folder, _files_of(folder, fragments))


def is_right(path: Path, checksum: str) -> bool:
    """True if a file has this checksum; it is read only if it changed since that was last asked."""
    state = _state(path)
    with _lock:
        if state is not None and _compared.get(path) == (state, checksum):
            return True
    if state is None or _checksum(path) != checksum:
        return False
    with _lock:
        _compared[path] = state, checksum
    return True


def compact_lists(folder: Path) -> None:
    """One list for all files that are still there. Only for who alone may write."""
    old, known = _names(folder), recorded(folder)
    joined = _write(folder, {name: checksum for name, checksum in known.items() if (folder / name).exists()})
    for name in old - {joined.name}:  # a list is named by what is in it: it may be the one of the last time
        (folder / CHECKSUMS / name).unlink(missing_ok=True)


def _forget_missing(folder: Path, known: Mapping[str, str]) -> None:
    """Keep nothing of files that went, once these are most of what is kept."""
    with _lock:
        if len(_compared) > 2 * len(known) + MOST_FORGOTTEN:
            there = {folder / name for name in known}
            for path in [each for each in _compared if each not in there and each.is_relative_to(folder)]:
                del _compared[path]


def _files_of(folder: Path, fragments: Iterable[Any]) -> Iterator[Path]:
    for fragment in fragments:
        yield from (folder / DATA / each.path for each in fragment.data_files())
        deletions = fragment.deletion_file()
        if deletions is not None:
            yield folder / deletions


def _names(folder: Path) -> set[str]:
    """The lists of a table."""
    where = folder / CHECKSUMS
    names = os.listdir(where) if where.is_dir() else []
    return {name for name in names if name.endswith(SUFFIX) and not name.startswith(".")}


def _read(path: Path) -> dict[str, str] | None:
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UnavailableError(f"`{path}` cannot be read at this moment: {error}. Try again.") from error
    if path.stem != digest(content):
        return {}
    try:
        found = parse_json(content)
    except ValueError:
        return {}
    is_list = isinstance(found, dict) and all(isinstance(each, str) for each in found.values())
    return found if is_list else {}


def _write(folder: Path, checksums: dict[str, str]) -> Path:
    content = json.dumps(checksums, sort_keys=True).encode()
    path = folder / CHECKSUMS / f"{digest(content)}{SUFFIX}"
    make_folder(path.parent)
    with replacing(path) as beside:
        beside.write_bytes(content)
    return path


def _checksum(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise UnavailableError(f"`{path}` cannot be read at this moment: {error}. Try again.") from error


def _state(path: Path) -> tuple[int, int, int] | None:
    """Metadata that changes when a file does; None if it is not there."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UnavailableError(f"`{path}` cannot be read at this moment: {error}. Try again.") from error
    return found.st_ino, found.st_mtime_ns, found.st_size


def _name(folder: Path, path: Path) -> str:
    return path.relative_to(folder).as_posix()
