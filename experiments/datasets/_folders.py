"""Where datasets lie on this machine.

One rule: the `folder` that was passed, and no other; else the folder that AHOP_DATA names; else the cache. Each has a
sub-folder for each dataset. What is fetched goes into the `folder` that was passed, else into the cache: a folder that
AHOP_DATA names may be shared or closed, and is only ever read.
"""

import os
import sys
from pathlib import Path

Folder = str | os.PathLike[str]


def folders_to_read(folder: Folder | None) -> list[Path]:
    if folder is not None:
        return [Path(folder)]
    shared = os.environ.get("AHOP_DATA")
    return [*([Path(shared)] if shared else []), cache_folder()]


def folder_to_fill(folder: Folder | None) -> Path:
    return cache_folder() if folder is None else Path(folder)


def cache_folder() -> Path:
    """AHOP_CACHE if it is set, else where this system keeps what can be fetched again."""
    chosen = os.environ.get("AHOP_CACHE")
    if chosen:
        return Path(chosen)
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "ahop" / "Cache"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "ahop"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ahop"
