"""Opening a table whose newest version did not reach the disk: its head is put aside, the version before is opened."""

import re
import warnings
from pathlib import Path
from typing import Any
from uuid import uuid4

from ahop import _optional
from ahop._files import flush
from ahop.errors import DataNotFoundError, FileFormatError, InvalidValueError
from ahop.stores.durability import VERSIONS
from ahop.stores.location import Location
from ahop.stores.locking import locked

HEAD = r"(\d{20})\.manifest"
# Lance names heads by how far their version lies below this, so that the newest comes first.
LARGEST = 2**64 - 1
MAGIC = b"LANC"


def open_table(location: Location, version: int | None = None) -> Any:
    """The table in this version; in the newest that is whole if None."""
    if version is not None:
        try:
            return _open(location, version)
        except (OSError, ValueError) as error:
            raise InvalidValueError(
                f"`version` must be one of those that `{location.address}` keeps; {version} cannot be read: {error}"
            ) from error
    if location.folder is not None:
        _put_torn_heads_aside(location, location.folder)
    try:
        return _open(location, None)
    except (OSError, ValueError) as error:
        raise DataNotFoundError(
            f"`{location.address}` holds no table that can be opened: {error}. `create_store` makes one."
        ) from error


def heads(folder: Path) -> list[tuple[int, Path]]:
    """The versions of a table and their files, newest first."""
    where = folder / VERSIONS
    named = ((re.fullmatch(HEAD, each.name), each) for each in (where.iterdir() if where.is_dir() else ()))
    return sorted(((LARGEST - int(found[1]), path) for found, path in named if found), reverse=True)


def _put_torn_heads_aside(location: Location, folder: Path) -> None:
    found = heads(folder)
    if not found or _is_whole(location, *found[0]):
        return
    with locked(folder):  # a head that is being written is not torn
        found = heads(folder)
        torn = []
        for number, path in found:
            if _is_whole(location, number, path):
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


def _is_whole(location: Location, number: int, path: Path) -> bool:
    """Whether a head reads as the version that its name says. Lance itself takes zeros for an empty version 0."""
    try:
        with path.open("rb") as head:
            head.seek(-len(MAGIC), 2)
            if head.read() != MAGIC:
                return False
        return int(_open(location, number).version) == number
    except (OSError, ValueError):
        return False


def _open(location: Location, version: int | None) -> Any:
    return _optional.lance().dataset(location.address, version=version, storage_options=location.options)
