"""Opening a table: heads are compared with their checksums, and one that never reached the disk is put aside.

A version is acknowledged once the checksum of its head is written down. A head without one, that cannot be read, was
torn by a power cut before anybody heard of it; a head with one is never given up.
"""

import re
import warnings
from pathlib import Path
from typing import Any
from uuid import uuid4

from ahop._core import optional
from ahop._core.files import flush
from ahop.errors import DataNotFoundError, FileFormatError, InvalidValueError, UnavailableError
from ahop.scale.stores.durability import VERSIONS
from ahop.scale.stores.integrity import is_right, recorded
from ahop.scale.stores.location import Location
from ahop.scale.stores.locking import locked

HEAD = r"(\d{20})\.manifest"
# Lance names heads by how far their version lies below this, so that the newest comes first.
LARGEST = 2**64 - 1
MAGIC = b"LANC"
# Heads of versions and of files that an open table keeps. Lance's own limit is a gigabyte, which a process that writes
# for hours fills with versions that nobody reads again: some megabytes hold what is read again.
HEAD_CACHE_BYTES = 32 * 2**20
# Of Lance's own indexes, which our tables have none of.
INDEX_CACHE_BYTES = 2**20


def open_table(location: Location, version: int | None = None) -> Any:
    """The table in this version; in the newest if None."""
    if version is not None:
        if location.folder is not None:
            check_heads(location, [each for each in heads(location.folder) if each[0] == version])
        try:
            return open_version(location, version)
        except (OSError, ValueError) as error:
            raise InvalidValueError(
                f"`version` must be one of those that `{location.address}` keeps; {version} cannot be read: {error}"
            ) from error
    newest = None if location.folder is None else newest_version(location)
    try:
        return open_version(location, newest)
    except (OSError, ValueError) as error:
        raise DataNotFoundError(
            f"`{location.address}` holds no table that can be opened: {error}. `create_store` makes one."
        ) from error


def newest_version(location: Location) -> int | None:
    """The newest version of a table on a local disk, whose head is right; None if there is none.

    Raises:
        FileFormatError: its head is damaged. Nothing is changed then: what was acknowledged is in it.
    """
    assert location.folder is not None
    found = heads(location.folder)
    if not found:
        return None
    if not _is_recorded(location.folder, found[0][1]) and not _is_whole(location, *found[0]):
        put_torn_heads_aside(location, location.folder)
        found = heads(location.folder)
    check_heads(location, found[:1])
    return found[0][0]


def heads(folder: Path) -> list[tuple[int, Path]]:
    """The versions of a table and their files, newest first."""
    where = folder / VERSIONS
    named = ((re.fullmatch(HEAD, each.name), each) for each in (where.iterdir() if where.is_dir() else ()))
    return sorted(((LARGEST - int(found[1]), path) for found, path in named if found), reverse=True)


def has_head(folder: Path, version: int) -> bool:
    """True if this version is kept; `compact` drops old ones."""
    return (folder / VERSIONS / f"{LARGEST - version:020d}.manifest").exists()


def check_heads(location: Location, found: list[tuple[int, Path]]) -> None:
    """Heads that were acknowledged are as they were then."""
    assert location.folder is not None
    known = recorded(location.folder)
    for number, path in found:
        checksum = known.get(f"{VERSIONS}/{path.name}")
        if checksum is not None and not is_right(path, checksum):
            raise FileFormatError(
                f"Version {number} of `{location.folder}` was acknowledged, and its head `{path.name}` is damaged. "
                "Nothing was changed. Restore that file from a copy, or open an older version by `version=`."
            )


def put_torn_heads_aside(location: Location, folder: Path) -> None:
    """Heads of versions that a power cut tore before anybody heard of them, from the newest on."""
    with locked(folder):  # a head that is being written is not torn
        found = heads(folder)
        torn = []
        for number, path in found:
            if _is_recorded(folder, path) or _is_whole(location, number, path):
                break
            torn.append((number, path))
        if len(torn) == len(found):
            raise FileFormatError(
                f"`{folder}` has no version whose head can be read, and was left as it is. Restore it from a copy."
            )
        for number, path in torn:
            aside = path.with_name(f"{path.name}.{uuid4().hex[:8]}.torn")
            path.rename(aside)
            warnings.warn(
                f"Version {number} of `{folder}` was never finished: its head is put aside as `{aside.name}`, and the "
                "version before is opened. What was acknowledged is in it.",
                RuntimeWarning,
                stacklevel=5,
            )
        flush(folder / VERSIONS)


def _is_recorded(folder: Path, path: Path) -> bool:
    return f"{VERSIONS}/{path.name}" in recorded(folder)


def _is_whole(location: Location, number: int, path: Path) -> bool:
    """True if a head reads as the version that its name says. Lance itself takes zeros for an empty version 0."""
    try:
        content = path.read_bytes()
    except OSError as error:  # a disk that fails for a moment says nothing about what is on it
        raise UnavailableError(f"`{path}` cannot be read at this moment: {error}. Try again.") from error
    if content[-len(MAGIC) :] != MAGIC:
        return False
    try:
        return int(open_version(location, number).version) == number
    except (OSError, ValueError):
        return False


def open_version(location: Location, version: int | None) -> Any:
    return optional.lance().dataset(
        location.address,
        version=version,
        storage_options=location.options,
        metadata_cache_size_bytes=HEAD_CACHE_BYTES,
        index_cache_size_bytes=INDEX_CACHE_BYTES,
    )
