"""`ahop link`: which rows of two tables belong together."""

from pathlib import Path
from typing import Annotated, Any

import typer

from ahop.cli import arguments
from ahop.cli.fit import memory_of
from ahop.cli.running import RequestError
from ahop.cli.sources import is_store, load_memory, read_queries
from ahop.cli.tables.choosing import Wanted, choose, narrowed, opened, told_of
from ahop.cli.tables.saving import check_table, write_table
from ahop.cli.tables.table import Table
from ahop.cli.talk import Talk, grid

SHOWN = 10
MEMORY = ".ahop"


def link(
    talk: Talk,
    left: Annotated[Path, typer.Argument(metavar="LEFT", help="A table, or a memory that was fitted to it.")],
    right: Annotated[
        Path, typer.Argument(metavar="RIGHT", help="A table whose rows are damaged copies of rows on the left.")
    ],
    output: arguments.Answers = None,
    one_to_one: Annotated[
        bool, typer.Option("--one-to-one/--many", help="Whether a left row belongs to one right row at most.")
    ] = True,
    unmatched: Annotated[
        float | None,
        typer.Option(min=0.0, max=1.0, help="Share of the right rows that belong to none. Estimated if not given."),
    ] = None,
    k: Annotated[int, typer.Option("-k", min=1, help="Lines for each right row: its link, then other candidates.")] = 1,
    id: arguments.Id = None,
    group: arguments.Group = None,
    columns: arguments.Columns = None,
    ignore: arguments.Ignore = None,
    categorical: arguments.Categorical = None,
    force: arguments.Force = False,
) -> None:
    """Find the rows of two tables that belong together.

    All rows decide together, with a probability for each link, and for rows that have none. Needs `ahop[link]`.
    """
    if output is not None:
        check_table(output, force)
    if left.suffix == MEMORY or is_store(left):
        memory: Any = load_memory(left, talk)
        asked = read_queries(right, memory, talk, Wanted.by(id, columns, ignore, group=group))
    else:
        if group is not None:
            raise RequestError("`--group` needs a memory on the left that was fitted with groups: `ahop fit --group`.")
        memory, asked = _tables(left, right, Wanted.by(id, columns, ignore, categorical), talk)
    from ahop.operate.linking.links import link as linked

    with talk.learning("link"):
        found = linked(
            _learn(memory, asked, talk),
            asked.values,
            one_to_one=one_to_one,
            unmatched=unmatched,
            k=k,
            groups=asked.role("group"),
            labels=asked.ids,
            progress=talk.shows_bars,
        )
    table = {name: values.tolist() for name, values in found.to_dict().items()}
    if output is not None:
        write_table(output, table, force)
    lines = [
        [str(each[0]), str(each[1]), f"{each[2]:.3f}", str(each[3])]
        for each in list(zip(*table.values(), strict=True))[:SHOWN]
    ]
    more = len(found) - SHOWN
    rest = [f"... and {more} more; `-o links.csv` writes them all."] if more > 0 and output is None else []
    talk.say(grid(list(table), lines, ("probability", "rank")), *rest, str(found))
    talk.say(*([f"Written to {output}."] if output is not None else []))
    talk.document(
        command="link",
        links=[dict(zip(table, row, strict=True)) for row in zip(*table.values(), strict=True)],
        unmatched_left={"rows": found.unmatched_left.rows, "probability": found.unmatched_left.probability},
        unmatched_right={"rows": found.unmatched_right.rows, "probability": found.unmatched_right.probability},
        unmatched_share=found.unmatched_share,
        misnamed=None
        if found.misnamed is None
        else {name: each.tolist() for name, each in vars(found.misnamed).items()},
        output=output and str(output),
    )


def _tables(left: Path, right: Path, wanted: Wanted, talk: Talk) -> tuple[Any, Table]:
    """A memory of the left table that has learned nothing, and the right table with the same columns."""
    first, second = opened(left, wanted, talk), opened(right, wanted, talk)
    stored = told_of(narrowed(choose(first, wanted), [second]), first, talk)
    aligned = wanted.aligned(stored.columns, stored.values.shape[1])
    return memory_of(stored, talk), told_of(choose(second, aligned), second, talk)


def _learn(memory: Any, asked: Table, talk: Talk) -> Any:
    """The memory, fitted to the right table without labels if it was fitted to nothing."""
    if memory.report is not None:
        return memory
    from ahop.fitting.fit import fit
    from ahop.operate.linking.links import LEARNED_FROM

    every = -(-len(asked) // LEARNED_FROM)
    return fit(memory, queries=asked.values[::every], similarity="auto", progress=talk.shows_bars)
