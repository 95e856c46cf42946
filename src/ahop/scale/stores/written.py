"""Check of the sizes of files that were just written, before a version is committed on them.

Lance may lose the error of the last write to a file (the disk is full, say), and go on with a file that is cut off.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ahop.errors import UnavailableError
from ahop.scale.stores.integrity import DATA

DELETIONS = "_deletions"
# How a file of deletions ends. Where it is a bitmap it has no end of its own, but is written in one go.
ARROW = b"ARROW1"


def check_written(folder: Path, fragments: Iterable[dict[str, Any]]) -> None:
    """The files of parts of a table that are about to be committed; the parts as Lance describes them.

    Raises:
        UnavailableError: the disk did not take all of a file.
    """
    for fragment in fragments:
        for file in fragment["files"]:
            check_size(folder / DATA / file["path"], file["file_size_bytes"])
        deletions = fragment.get("deletion_file")
        if deletions is not None:
            name = f"{fragment['id']}-{deletions['read_version']}-{deletions['id']}"
            for path in (folder / DELETIONS).glob(f"{name}.*"):
                content = path.read_bytes()
                if not content or (path.suffix == ".arrow" and not content.endswith(ARROW)):
                    raise _cut_off(path)


def check_size(path: Path, size: int | None) -> None:
    """A file that should have so many bytes; None if nobody knows."""
    if size is not None and path.stat().st_size != size:
        raise _cut_off(path)


def _cut_off(path: Path) -> UnavailableError:
    return UnavailableError(
        f"The disk did not take all of `{path}`, and nothing was changed. See whether it has room, then try again."
    )
