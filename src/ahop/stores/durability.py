"""From the caches of the system to the disk: Lance writes files and leaves it to others to make them durable."""

import os
from collections.abc import Iterator
from pathlib import Path

from ahop._files import flush

VERSIONS = "_versions"
# Folders of a table whose files nobody needs after a power cut.
PASSING = {"_cache"}


class Flusher:
    """Sees to it that the files of one table are on its disk.

    Files that others wrote are flushed as well, as new versions stand on them; each file once, as none ever changes.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._flushed: set[tuple[str, int, int]] = set()

    def flush_data(self) -> None:
        """All but the heads of versions: to be done before a version is committed that needs them."""
        for folder in self._folders():
            if folder.name != VERSIONS:
                self._flush(folder)

    def flush_versions(self) -> None:
        """The heads of versions: to be done before a version is acknowledged."""
        self._flush(self.folder / VERSIONS)

    def _folders(self) -> Iterator[Path]:
        yield self.folder
        yield from (each for each in self.folder.iterdir() if each.is_dir() and each.name not in PASSING)

    def _flush(self, folder: Path) -> None:
        """The new files of a folder, then their names."""
        with os.scandir(folder) as found:
            known = {(each.path, each.stat().st_ino, each.stat().st_mtime_ns) for each in found if each.is_file()}
        for file in sorted(known - self._flushed):
            flush(Path(file[0]))
            self._flushed.add(file)
        flush(folder)
