"""Checksums of the files of a table on a local disk: written before a version is acknowledged, compared before a read.

Each commit adds one list of checksums, a file that is named by its own. What was compared once is not read again unless
the file changes.
"""

import json
from collections.abc import Iterable, Iterator
from hashlib import file_digest
from pathlib import Path
from threading import Lock
from typing import Any

from ahop._files import digest, make_folder, replacing
from ahop._json import parse_json
from ahop.errors import FileFormatError, UnavailableError

CHECKSUMS, DATA = "_checksums", "data"
SUFFIX = ".json"
# Entries about files that went, before it is worth looking for them.
MOST_FORGOTTEN = 1000

_lock = Lock()
# By path: what the file was when its checksum was right, and that checksum.
_compared: dict[Path, tuple[tuple[int, int, int], str]] = {}
# By table and path: the lists that were read; a list never changes.
_lists: dict[Path, dict[Path, dict[str, str]]] = {}


def record(folder: Path, files: Iterable[Path]) -> None:
    """Write down the checksums of files that have none yet; durable when this returns."""
    known = recorded(folder)
    new = {_name(folder, path): _checksum(path) for path in files if _name(folder, path) not in known}
    if new:
        _write(folder, new)


def recorded(folder: Path) -> dict[str, str]:
    """The checksum of each file, by its path in the table. A list that is damaged itself is left out."""
    while True:
        paths = _of(folder)
        with _lock:
            there = set(paths)
            kept = {path: known for path, known in _lists.get(folder, {}).items() if path in there}
            _lists[folder] = kept
        lists = [_list(path, kept) for path in paths]
        if None not in lists:
            return {name: checksum for each in lists if each for name, checksum in each.items()}
        # A list went while we read, as they were joined: the joined one has what was in it.


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
    """The same for some parts of a table."""
    verify(folder, _files_of(folder, fragments))


def is_right(path: Path, checksum: str) -> bool:
    """Whether a file has this checksum; it is read only if it changed since that was last asked."""
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
    old, known = _of(folder), recorded(folder)
    joined = _write(folder, {name: checksum for name, checksum in known.items() if (folder / name).exists()})
    for path in old:
        if path != joined:  # a list is named by what is in it: nothing changed since the last time
            path.unlink(missing_ok=True)


def _forget_missing(folder: Path, known: dict[str, str]) -> None:
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


def _of(folder: Path) -> list[Path]:
    where = folder / CHECKSUMS
    return sorted(where.glob(f"[!.]*{SUFFIX}")) if where.is_dir() else []


def _list(path: Path, kept: dict[Path, dict[str, str]]) -> dict[str, str] | None:
    """The checksums of one list; none where it is damaged, and None where it is gone."""
    known = kept.get(path)
    if known is None:
        known = _read(path)
        if known:
            with _lock:
                kept[path] = known
    return known


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
    """What changes when a file does; None if it is not there."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UnavailableError(f"`{path}` cannot be read at this moment: {error}. Try again.") from error
    return found.st_ino, found.st_mtime_ns, found.st_size


def _name(folder: Path, path: Path) -> str:
    return path.relative_to(folder).as_posix()
