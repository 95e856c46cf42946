"""Flush the files of a table to disk."""

import os
from collections.abc import Iterator
from pathlib import Path

from ahop._files import flush
from ahop.stores.integrity import CHECKSUMS, record

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
        self._flushed: set[tuple[str, int, int]] = set()

    def flush_data(self) -> None:
        """All but the heads of versions, and their checksums: to be done before a version is committed on them."""
        new = [file for folder in self._folders() if folder.name != VERSIONS for file in self._flush(folder)]
        record(self.folder, [file for file in new if file.parent != self.folder])

    def flush_versions(self) -> None:
        """The heads of versions, and their checksums: to be done before a version is acknowledged."""
        new = self._flush(self.folder / VERSIONS)
        record(self.folder, [file for file in new if file.suffix == HEAD])

    def _folders(self) -> Iterator[Path]:
        yield self.folder
        yield from (each for each in self.folder.iterdir() if each.is_dir() and each.name not in PASSING)

    def _flush(self, folder: Path) -> list[Path]:
        """The new files of a folder, then their names; returns the new files."""
        with os.scandir(folder) as found:
            known = {(each.path, each.stat().st_ino, each.stat().st_mtime_ns) for each in found if each.is_file()}
        new = sorted(known - self._flushed)
        for file in new:
            flush(Path(file[0]))
            self._flushed.add(file)
        flush(folder)
        return [Path(file[0]) for file in new]
