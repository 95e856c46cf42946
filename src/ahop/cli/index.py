"""`ahop index`: a durable store of patterns that can be asked and added to."""

import re
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from ahop.cli import arguments
from ahop.cli.running import RequestError
from ahop.cli.sources import LABEL, load_memory, read_queries
from ahop.cli.tables.choosing import Wanted
from ahop.cli.tables.table import Table
from ahop.cli.talk import Talk

MEMORY = ".ahop"
COLUMN = r"[A-Za-z_][A-Za-z0-9_]*"
TAKEN = ("id", "pattern", LABEL)


def index(
    talk: Talk,
    patterns: Annotated[
        list[Path],
        typer.Argument(metavar="PATTERNS...", help="Tables of patterns; or one memory, whose own patterns are stored."),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="A new folder for the store, such as rooms.lance.")],
    memory: Annotated[
        Path | None, typer.Option(help="The memory that has learned how copies get damaged.", metavar="FILE")
    ] = None,
    id: arguments.Id = None,
    columns: arguments.Columns = None,
    ignore: arguments.Ignore = None,
) -> None:
    """Make a store of patterns on the disk.

    Patterns and what was learned: durable, versioned, larger than memory. Needs `ahop[store]`.
    """
    from ahop._core.optional import lance

    if output.exists():
        raise RequestError(f"`{output}` is there already. A store is never written over: give another name.")
    lance()
    if len(patterns) == 1 and patterns[0].suffix == MEMORY and memory is None:
        learned = load_memory(patterns[0], talk)
        tables: list[Table] = []
    elif memory is None:
        raise RequestError(
            "`--memory FILE` is needed: it has learned how copies get damaged. `ahop fit ... -o memory.ahop` makes one."
        )
    else:
        learned = load_memory(memory, talk)
        tables = [read_queries(path, learned, talk, Wanted.by(id, columns, ignore)) for path in patterns]
    with talk.phase("writing the store"):
        store = _create(output, learned, tables)
    beside = f", with the columns {', '.join(store.metadata_columns)}" if store.metadata_columns else ""
    talk.say(f"{len(store)} patterns of {store.dimensions} dimensions are in {output}{beside}.")
    talk.document(
        command="index",
        output=str(output),
        patterns=len(store),
        dimensions=store.dimensions,
        metadata=store.metadata_columns,
        version=store.version,
    )


def _create(output: Path, learned: Any, tables: list[Table]) -> Any:
    from ahop.memory.memory import AssociativeMemory
    from ahop.scale.stores.create import create_store

    if not tables:
        labels = None if learned.labels is None else {LABEL: [str(each) for each in learned.labels.tolist()]}
        return create_store(output, learned, metadata=labels)
    values = np.concatenate([table.values for table in tables])
    memory = AssociativeMemory(values, model=learned.model)
    memory.columns = learned.columns
    return create_store(output, memory, metadata=_metadata(tables))


def _metadata(tables: list[Table]) -> dict[str, list[str | None]]:
    """Labels of the rows, and the columns of words that all tables have."""
    found: dict[str, list[str | None]] = {}
    if all(table.ids is not None for table in tables):
        found[LABEL] = [str(each) for table in tables for each in table.names]
    for name in tables[0].words:
        is_shared = all(name in table.words and name != table.id_column for table in tables)
        if is_shared and name.lower() not in TAKEN and re.fullmatch(COLUMN, name):
            found[name] = [each for table in tables for each in table.words[name]]
    return found
