"""Look through the files of a store on a local disk, and write down checksums that are gone."""

from dataclasses import dataclass
from typing import Any

from ahop.errors import FileFormatError, UnsupportedError
from ahop.scale.stores.integrity import files_of_version, is_right, recorded
from ahop.scale.stores.location import Address, Location
from ahop.scale.stores.locking import locked
from ahop.scale.stores.recovery import heads, open_version, put_torn_heads_aside
from ahop.scale.stores.table_rows import batches_read
from ahop.scale.stores.writer import Writer


@dataclass(frozen=True)
class Health:
    """The files that the versions of a store stand on.

    Attributes:
        versions: that are kept, oldest first.
        rows: of the newest.
        files: how many there are.
        unchecked: those that have no checksum: nobody can tell whether they are as they were written.
        damaged: those that are missing, or not as they were written.
    """

    versions: tuple[int, ...]
    rows: int
    files: int
    unchecked: tuple[str, ...]
    damaged: tuple[str, ...]

    @property
    def is_sound(self) -> bool:
        return not self.unchecked and not self.damaged


def examine_store(path: Address) -> Health:
    """Compare all files of a store with their checksums; nothing is changed."""
    return _examined(_local(path))


def repair_store(path: Address) -> Health:
    """Write checksums for files that have none, where every row of every version can still be read.

    A missing list of checksums makes a store unreadable, as it cannot be told whether its files are whole. This reads
    all of them as Lance does, and takes them for right if that succeeds: a bit that was flipped in a number meanwhile
    goes unseen. Restore a copy instead, where there is one.

    Raises:
        FileFormatError: a file is damaged: its checksum is known and does not fit, or Lance cannot read it. Nothing was
            changed then.
    """
    location = _local(path)
    assert location.folder is not None
    put_torn_heads_aside(location, location.folder)
    with locked(location.folder):
        found = _examined(location)
        if found.damaged:
            raise FileFormatError(
                f"`{found.damaged[0]}` in `{location.folder}` is damaged, and {len(found.damaged) - 1} other files. "
                "Nothing was changed. Restore them from a copy, or open an older version that does not need them."
            )
        for number in found.versions:
            _read_all(location, number)
        Writer(location).flush()
        return _examined(location)


def _examined(location: Location) -> Health:
    assert location.folder is not None
    folder, known = location.folder, recorded(location.folder)
    tables = [(path, _opened(location, number)) for number, path in reversed(heads(folder))]
    if not tables:
        raise FileFormatError(f"`{folder}` has no version. Restore it from a copy, or make one by `create_store`.")
    unreadable = {path for path, table in tables if table is None}
    readable = [table for _, table in tables if table is not None]
    files = {path for path, _ in tables}.union(*(files_of_version(folder, table) for table in readable))
    named = {file.relative_to(folder).as_posix(): file for file in sorted(files)}
    unchecked = tuple(name for name, file in named.items() if name not in known and file.exists())
    damaged = tuple(
        name
        for name, file in named.items()
        if file in unreadable or not file.exists() or (name in known and not is_right(file, known[name]))
    )
    rows = int(readable[-1].count_rows()) if readable else 0
    return Health(tuple(int(table.version) for table in readable), rows, len(files), unchecked, damaged)


def _opened(location: Location, number: int) -> Any:
    try:
        return open_version(location, number)
    except (OSError, ValueError):
        return None


def _read_all(location: Location, number: int) -> None:
    """Every column of every row."""
    try:
        table = open_version(location, number)
        count = sum(int(batch.num_rows) for batch in batches_read(table.scanner()))
    except (OSError, ValueError) as error:
        raise FileFormatError(
            f"Version {number} of `{location.folder}` cannot be read: {error}. Nothing was changed. Restore it from a "
            "copy."
        ) from error
    if count != table.count_rows():
        raise FileFormatError(f"Version {number} of `{location.folder}` has lost rows. Restore it from a copy.")


def _local(path: Address) -> Location:
    location = Location.of(path)
    if location.folder is None:
        raise UnsupportedError(
            f"`{location.address}` is in an object store, which keeps its own checksums: there is nothing to repair."
        )
    if not location.folder.is_dir():
        raise FileFormatError(f"`{location.folder}` is no folder of a store.")
    return location
