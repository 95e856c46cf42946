"""Flush the files of a table to disk."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

from ahop._core.files import flush
from ahop.scale.stores.integrity import CHECKSUMS, record

VERSIONS = "_versions"
# Heads of versions are files that end so.
HEAD = ".manifest"
# Folders of a table whose files nobody needs after a power cut.
PASSING = {"_cache", CHECKSUMS}


class Flusher:
    """Sees to it that the files of one table are on its disk.

    Files that others wrote are flushed as well, as new versions stand on them; each file once, as none ever changes.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._flushed: dict[Path, set[tuple[str, int, int]]] = {}

    def flush_data(self) -> None:
        """All but the heads of versions, and their checksums: to be done before a version is committed on them."""
        folders = [folder for folder in self._folders() if folder.name != VERSIONS]
        self._flush(folders, lambda file: file.parent != self.folder)

    def flush_versions(self) -> None:
        """The heads of versions, and their checksums: to be done before a version is acknowledged."""
        self._flush([self.folder / VERSIONS], lambda file: file.suffix == HEAD)

    def _folders(self) -> Iterator[Path]:
        yield self.folder
        yield from (each for each in self.folder.iterdir() if each.is_dir() and each.name not in PASSING)

    def _flush(self, folders: list[Path], is_recorded: Callable[[Path], bool]) -> None:
        """The new files of folders, then their names, then the checksums of those that have one."""
        new: dict[Path, set[tuple[str, int, int]]] = {}
        for folder in folders:
            with os.scandir(folder) as found:
                there = {(each.path, each.stat().st_ino, each.stat().st_mtime_ns) for each in found if each.is_file()}
            new[folder] = there - self._flushed.get(folder, set())
            for name, _, _ in sorted(new[folder]):
                flush(Path(name))
            flush(folder)
            self._flushed[folder] = self._flushed.get(folder, set()) & there
        files = [Path(name) for each in new.values() for name, _, _ in sorted(each)]
        record(self.folder, [file for file in files if is_recorded(file)])
        for folder, each in new.items():  # those that could not be recorded are tried again
            self._flushed[folder] |= each
