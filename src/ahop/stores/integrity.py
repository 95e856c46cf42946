"""Checksums of the files of a table on a local disk: written before a version is acknowledged, compared before a read.

Each commit adds one list of checksums, a file that is named by its own. What was compared once is not read again unless
the file changes.
"""

import json
from collections.abc import Iterable, Iterator
from contextlib import suppress
from hashlib import file_digest
from pathlib import Path
from threading import Lock
from typing import Any

from ahop._files import digest, make_folder, replacing
from ahop._json import parse_json
from ahop.errors import FileFormatError, UnavailableError

CHECKSUMS, DATA = "_checksums", "data"
SUFFIX = ".json"

_lock = Lock()
# By path: what the file was when its checksum was right, and that checksum.
_compared: dict[Path, tuple[tuple[int, int, int], str]] = {}
# By path: the lists that were read; a list never changes.
_lists: dict[Path, dict[str, str]] = {}


def record(folder: Path, files: Iterable[Path]) -> None:
    """Write down the checksums of files that have none yet; durable when this returns."""
    known = recorded(folder)
    new = {_name(folder, path): _checksum(path) for path in files if _name(folder, path) not in known}
    if new:
        _write(folder, new)


def recorded(folder: Path) -> dict[str, str]:
    """The checksum of each file, by its path in the table. A list that is damaged itself is left out."""
    found: dict[str, str] = {}
    for path in _of(folder):
        with _lock:
            known = _lists.get(path)
        if known is None:
            known = _read(path)
            with _lock:
                _lists[path] = known
        found |= known
    return found


def verify(folder: Path, files: Iterable[Path]) -> None:
    """Compare files with what was written down about them.

    Raises:
        FileFormatError: a file is damaged or missing, or nothing was written down about it.
        UnavailableError: it cannot be read at this moment.
    """
    known = recorded(folder)
    for path in files:
        name = _name(folder, path)
        if name not in known:
            raise FileFormatError(
                f"`{path}` has no checksum: the list that had it is missing or damaged. Restore `{folder}` from a copy."
            )
        if not is_right(path, known[name]):
            raise FileFormatError(
                f"`{path}` is damaged: its checksum does not fit what is in it. Restore it from a copy, or open an "
                "older version that does not need it."
            )


def verify_version(folder: Path, table: Any) -> None:
    """The files that hold the rows of an open table, and its deletions."""
    verify_fragments(folder, table.get_fragments())


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
    old, known = list(_of(folder)), recorded(folder)
    _write(folder, {name: checksum for name, checksum in known.items() if (folder / name).exists()})
    for path in old:
        with suppress(FileNotFoundError):
            path.unlink()


def _files_of(folder: Path, fragments: Iterable[Any]) -> Iterator[Path]:
    for fragment in fragments:
        yield from (folder / DATA / each.path for each in fragment.data_files())
        deletions = fragment.deletion_file()
        if deletions is not None:
            yield folder / deletions


def _of(folder: Path) -> list[Path]:
    where = folder / CHECKSUMS
    return sorted(where.glob(f"[!.]*{SUFFIX}")) if where.is_dir() else []


def _read(path: Path) -> dict[str, str]:
    try:
        content = path.read_bytes()
    except FileNotFoundError:  # lists were joined meanwhile
        return {}
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


def _write(folder: Path, checksums: dict[str, str]) -> None:
    content = json.dumps(checksums, sort_keys=True).encode()
    where = folder / CHECKSUMS
    make_folder(where)
    with replacing(where / f"{digest(content)}{SUFFIX}") as beside:
        beside.write_bytes(content)


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
