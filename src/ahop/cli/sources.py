"""Memories and stores by their path, and the queries that they are asked."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from ahop._core.optional import is_installed
from ahop.cli.running import RequestError
from ahop.cli.tables.choosing import Wanted, opened, origins_of, read_table
from ahop.cli.tables.table import Table
from ahop.cli.talk import Talk
from ahop.errors import FileFormatError

if TYPE_CHECKING:
    from ahop.memory.memory import AssociativeMemory
    from ahop.memory.saving.contents import Contents
    from ahop.scale.stores.store import Store

Found = TypeVar("Found")

# The column of a store that has the names of its patterns.
LABEL = "label"
# The column of pairs that names their origins, if no other is asked for.
ORIGIN = "origin"


def is_store(path: Path) -> bool:
    return path.is_dir() or "://" in str(path)


def load_memory(path: Path, talk: Talk) -> "AssociativeMemory":
    """The memory in a file; of a store, that of all its patterns."""
    if is_store(path):
        return load_store(path, talk).memory()
    from ahop.memory.load import load as read_memory

    return _read(path, read_memory, talk)


def load_asked(path: Path, talk: Talk) -> Any:
    """Whatever recalls from a file or a store; a file without torch where that is not installed."""
    if is_store(path):
        return load_store(path, talk)
    if is_installed("torch"):
        return load_memory(path, talk)
    from ahop.memory.runtime import open_memory

    return _read(path, open_memory, talk)


def load_contents(path: Path, talk: Talk) -> "Contents":
    """Contents of a file."""
    from ahop.memory.saving.contents import read_contents

    return _read(path, read_contents, talk)


def _read(path: Path, read: Callable[[Path], Found], talk: Talk) -> Found:
    _check_there(path)
    with talk.phase(f"loading {path.name}"):
        try:
            return read(path)
        except FileFormatError as error:
            from ahop.cli.tables.formats import READERS

            if path.suffix.lower() in READERS:
                raise RequestError(
                    f"`{path}` is a table, and a memory is needed: `ahop fit {path} --queries ... -o memory.ahop`."
                ) from error
            raise


def load_store(path: Path, talk: Talk) -> "Store":
    if "://" not in str(path):
        _check_there(path)
    with talk.phase(f"opening {path.name}"):
        from ahop.scale.stores.store import open_store

        return open_store(path)


def labels_of(memory: "AssociativeMemory | Store") -> dict[int, object] | None:
    """Labels of the patterns, by their number; None if they have none."""
    if hasattr(memory, "labels"):
        return None if memory.labels is None else dict(enumerate(memory.labels.tolist()))
    if LABEL not in memory.metadata_columns:
        return None
    rows = memory.rows()
    return dict(zip(rows.ids.tolist(), rows.metadata[LABEL].tolist(), strict=True))


def group_names(asker: Any) -> Sequence[str]:
    """Groups that a memory was fitted with; a store does not say."""
    if not hasattr(asker, "labels"):
        return ()
    found: Sequence[str] = asker.model.group_names if hasattr(asker, "model") else asker.group_names
    return found


def _check_there(path: Path) -> None:
    if not path.exists():
        raise RequestError(f"`{path}` is not there.")


def read_queries(path: Path, memory: "AssociativeMemory | Store", talk: Talk, wanted: Wanted) -> Table:
    """Queries in the order of the columns that the memory has."""
    table = read_table(path, wanted.aligned(memory.columns, memory.dimensions), talk)
    if memory.columns is None and table.has_names:
        talk.note(f"The columns of what is stored have no names: those of {path.name} are taken in their order.")
    return table


def read_pairs(
    path: Path, memory: "AssociativeMemory", talk: Talk, origin: str | None, group: str | None
) -> tuple[list[Any], Table]:
    """Origins as the memory calls them, and copies."""
    labels = None if memory.labels is None else memory.labels.tolist()
    named = origin or _origin_column(path, labels or (), talk)
    table = read_queries(path, memory, talk, Wanted.by(origin=named, group=group))
    texts = table.role("origin")
    assert texts is not None
    return origins_of(texts, labels, len(memory), path), table


def _origin_column(path: Path, labels: Sequence[object], talk: Talk) -> str:
    """`origin`, or the one column whose entries are names of stored patterns."""
    sheet, known = opened(path, Wanted.by(), talk), {str(label) for label in labels}
    named = [name for name, each in sheet.columns.items() if each.words and known.issuperset(map(str, each.words))]
    return named[0] if ORIGIN not in sheet.columns and len(named) == 1 else ORIGIN
