"""An index of a memory's file: made once, kept beside it, and made anew for each model that is learned."""

import logging
import time
from pathlib import Path

from ahop._core.files import make_folder
from ahop.errors import FileFormatError, InvalidTypeError, InvalidValueError, UnsupportedError
from ahop.memory.memory import AssociativeMemory
from ahop.scale.indexes.build import tune
from ahop.scale.indexes.index_file import load_index, save_index
from ahop.scale.indexes.row_index import Index
from ahop.service.logs import log


def kept_index(memory: AssociativeMemory, path: Path) -> Index | None:
    """The index of this memory in this file; if it is not there, is damaged or is of another memory, a new one.

    None where no index finds what an exhaustive search finds, or nobody knows how queries are damaged.
    """
    if path.exists():
        try:
            return load_index(path, memory)
        except (FileFormatError, InvalidValueError) as error:
            log("index made anew", logging.WARNING, error, file=path.name)
    started = time.monotonic()
    # A compressed form of every row: it misses least, and up to a million rows nothing is faster.
    try:
        made = tune(memory, kinds=("scan",), geometries=("augmented",))
    except (UnsupportedError, InvalidTypeError) as error:
        log("no index", logging.WARNING, reason=str(error))
        return None
    make_folder(path.parent)
    save_index(made, path)
    log("index made", file=path.name, seconds=round(time.monotonic() - started, 1))
    return made
