"""`ahop inspect`: what is in a memory or a store."""

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from ahop._core.words import told
from ahop.cli import arguments
from ahop.cli.fit import sentences
from ahop.cli.pictures import check_picture, save_picture
from ahop.cli.running import RequestError
from ahop.cli.sources import is_store, load_contents, load_memory, load_store
from ahop.cli.talk import Talk, facts, grid

if TYPE_CHECKING:
    from ahop.memory.saving.contents import Contents
    from ahop.memory.saving.parts import Part


def inspect(
    talk: Talk,
    path: Annotated[Path, typer.Argument(metavar="PATH", help="A memory or a store.")],
    png: arguments.Picture = None,
    column: Annotated[
        str | None, typer.Option(help="The column that the picture shows; default the first.", metavar="COLUMN")
    ] = None,
    force: arguments.Force = False,
) -> None:
    """Show what is in a memory or a store.

    What is stored and what was learned, in words; and a picture of it, if one is asked for.
    """
    check_picture(png, force)
    if is_store(path):
        if png is not None:
            raise RequestError("A picture is drawn of a memory: inspect the one that the store was made of.")
        _inspect_store(path, talk)
    else:
        _inspect_memory(path, talk, png, column, force)


def _inspect_memory(path: Path, talk: Talk, png: Path | None, column: str | None, force: bool) -> None:
    from ahop.memory.saving.contents import as_format_error

    memory = load_contents(path, talk)
    count, width = memory.patterns.shape
    named = None if memory.columns is None else list(memory.columns)
    labels = None if memory.labels is None else memory.labels.tolist()
    gaps = float(np.isnan(memory.patterns).mean())
    with as_format_error(memory.where):
        model = memory.model()
    known = {
        "file": f"{path}, {path.stat().st_size:,} bytes",
        **_facts(memory, model, labels, named, gaps),
    }
    report: Any = memory.report
    learned = ["Nothing was learned yet."] if report is None else sentences(str(report))
    if png is not None:
        from ahop.plots.learned import CorruptionDisplay

        picture = CorruptionDisplay.from_memory(load_memory(path, talk), _place(column, named, width))
        save_picture(png, picture.plot(), force)
    talk.say(facts(known), "", *learned)
    talk.say(*([f"Written to {png}."] if png is not None else []))
    talk.document(
        command="inspect",
        kind="memory",
        path=str(path),
        bytes=path.stat().st_size,
        patterns=count,
        dimensions=width,
        columns=named,
        labels=None if labels is None else labels[:10],
        missing=gaps,
        similarity=model.similarity.kind,
        groups=memory.group_names,
        reference=None if memory.reference is None else len(memory.reference.queries),
        tells_unknown=model.detector is not None,
        report=None if report is None else asdict(report),
        words=" ".join(learned),
    )


def _facts(
    memory: "Contents", model: "Part", labels: list[Any] | None, named: list[str] | None, gaps: float
) -> dict[str, str]:
    count, width = memory.patterns.shape
    missing = f", {100 * gaps:.1f} % not observed" if gaps else ""
    kept = memory.reference
    return {
        "patterns": f"{count} of {width} dimensions, {memory.dtype}{missing}",
        "names of rows": "none, they are counted from 0" if labels is None else told(labels),
        "columns": "none, they are counted from 0" if named is None else told(named),
        "similarity": model.similarity.kind,
        "separation": _formula(memory.manifest["model"]["separation"]),
        "unknown queries": "told" if model.detector is not None else "not told: it was not fitted to",
        "groups": told(memory.group_names) or "none",
        "queries kept": "none" if kept is None else f"{len(kept.queries)} of the fit, for `ahop watch`",
    }


def _formula(part: Any) -> str:
    """A part as it would be made: its name, and its arguments."""
    if not isinstance(part, Mapping):
        return repr(part)
    arguments = ", ".join(f"{name}={_formula(value)}" for name, value in part["arguments"].items())
    return f"{part['component']}({arguments})"


def _place(column: str | None, named: list[str] | None, width: int) -> int:
    known = [str(place) for place in range(width)] if named is None else named
    if column is not None and column not in known:
        raise RequestError(f"`--column` must be one of {told(known)}; got {column!r}.")
    return 0 if column is None else known.index(column)


def _inspect_store(path: Path, talk: Talk) -> None:
    store = load_store(path, talk)
    versions = store.versions()
    report = store.model().report
    known = {
        "store": str(path),
        "patterns": f"{len(store)} of {store.dimensions} dimensions",
        "columns": "none, they are counted from 0" if store.columns is None else told(store.columns),
        "metadata": told(store.metadata_columns) or "none",
        "version": f"{store.version}, of {len(versions)} that are kept",
    }
    learned = ["Nothing was learned yet."] if report is None else sentences(str(report))
    rows = [[str(each.number), each.when.isoformat(timespec="seconds"), str(each.rows)] for each in versions]
    talk.say(facts(known), "", *learned, "")
    talk.say(grid(["version", "written", "patterns"], rows))
    talk.document(
        command="inspect",
        kind="store",
        path=str(path),
        patterns=len(store),
        dimensions=store.dimensions,
        columns=store.columns,
        metadata=store.metadata_columns,
        version=store.version,
        versions=[
            {"number": each.number, "written": each.when.isoformat(), "patterns": each.rows} for each in versions
        ],
        report=None if report is None else asdict(report),
        words=" ".join(learned),
    )
