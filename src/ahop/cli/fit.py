"""`ahop fit`: learn how copies get damaged, and write a memory."""

import re
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ahop._core.columns import words_of
from ahop._core.rows import in_single_precision
from ahop.cli import arguments
from ahop.cli.running import RequestError
from ahop.cli.tables.choosing import Wanted, choose, narrowed, opened, origins_of, told_of
from ahop.cli.tables.saving import check_output, written
from ahop.cli.tables.sheet import Sheet
from ahop.cli.tables.table import Table
from ahop.cli.talk import Talk

if TYPE_CHECKING:
    from ahop.memory.memory import AssociativeMemory

ENDINGS = (".ahop",)
ORIGIN = "origin"


def fit(
    talk: Talk,
    patterns: arguments.Patterns,
    output: Annotated[Path, typer.Option("--output", "-o", help="Write the memory here: a name that ends in .ahop.")],
    pairs: Annotated[
        Path | None, typer.Option(help="Copies, with a column that names the pattern they came from.", metavar="FILE")
    ] = None,
    queries: Annotated[
        Path | None, typer.Option(help="A log of queries; nobody needs to know their origins.", metavar="FILE")
    ] = None,
    id: arguments.Id = None,
    origin: arguments.Origin = None,
    group: arguments.Group = None,
    columns: arguments.Columns = None,
    ignore: arguments.Ignore = None,
    categorical: arguments.Categorical = None,
    errors: arguments.Errors = None,
    similarity: Annotated[
        str, typer.Option(help="`auto` tries all that suit; or one name, or several with commas between.")
    ] = "auto",
    seed: Annotated[int, typer.Option(help="Of everything that is drawn.")] = 0,
    force: arguments.Force = False,
) -> None:
    """Learn how copies get damaged, and write a memory.

    From pairs, whose origins are known, from queries alone, or from both; or from patterns whose names repeat, as these
    are copies of each other. It says in words what was found.
    """
    check_output(output, force, ENDINGS)
    wanted = Wanted.by(id, columns, ignore, categorical)
    sheet = opened(patterns, wanted, talk)
    if pairs is None and group is not None and group in sheet.columns:
        wanted = Wanted.by(id, columns, ignore, categorical, group=group)
    asked = Wanted.by(origin=origin or ORIGIN, group=group)
    sheets = {path: opened(path, asked, talk) for path in (pairs, queries) if path}
    table = told_of(narrowed(choose(sheet, wanted), list(sheets.values())), sheet, talk)
    is_repeated = pairs is None and table.ids is not None and len(set(table.ids)) < len(table)
    if pairs is None and queries is None and not is_repeated:
        raise RequestError(
            "There is nothing to learn from: give `--pairs FILE`, or `--queries FILE` without origins; or patterns of "
            "which several have the same name, `--id COLUMN`."
        )
    if is_repeated and words_of(table.columns):
        raise RequestError(
            "`--categorical` needs patterns whose names differ: rows of one name make one pattern, their mean, and "
            "categories have none. Give `--pairs` or `--queries` beside patterns of different names."
        )
    memory = memory_of(table, talk)
    given: dict[str, Any] = {}
    of_group = {} if group is None else {"group": group}
    groups: list[str] = list(table.role("group") or []) if is_repeated else []  # of the pairs, then of the queries
    if pairs is not None:
        roles = {"origin": _origin(sheets[pairs], origin, table.id_column), **of_group}
        copies = _choose_like(sheets[pairs], table, roles, talk)
        given["pairs"] = origins_of(copies.role("origin") or [], table.ids, len(table), pairs), copies.values
        groups += copies.role("group") or []
    if queries is not None:
        has_group = not is_repeated or group in sheets[queries].columns  # a new device may have no name yet
        log = _choose_like(sheets[queries], table, of_group if has_group else {}, talk)
        given["queries"] = log.values
        groups += log.role("group") or []
    given["groups"] = groups or None
    given |= {} if errors is None else {"errors": errors}
    from ahop.fitting.fit import fit as learn

    names = [each.strip() for each in similarity.split(",")]
    with talk.learning("fit"):
        if is_repeated:
            memory = learn(
                memory.patterns, labels=table.ids, **given, similarity=names, seed=seed, progress=talk.shows_bars
            )
            memory.columns = table.columns
        else:
            memory = learn(memory, **given, similarity=names, seed=seed, progress=talk.shows_bars)
    with written(output, force) as beside:
        memory.save(beside)
    talk.say(*sentences(str(memory.report)), f"Written to {output}.")
    report: Any = memory.report
    talk.document(command="fit", output=str(output), patterns=len(memory), report=str(report), found=asdict(report))


def memory_of(table: Table, talk: Talk) -> "AssociativeMemory":
    """A memory that has learned nothing yet, with the names of the table."""
    with talk.phase("loading torch"):
        from ahop.memory.memory import AssociativeMemory
    single = in_single_precision(table.values)  # which the compiled recall counts with
    memory = AssociativeMemory(table.values if single is None else single, labels=table.ids)
    memory.columns = table.columns
    return memory


def sentences(text: str) -> list[str]:
    """A paragraph, a sentence in each line."""
    return re.split(r"(?<=[.])\s(?=[A-Z0-9])", text)


def _choose_like(sheet: Sheet, table: Table, roles: dict[str, str], talk: Talk) -> Table:
    wanted = Wanted(roles=roles).aligned(table.columns, table.values.shape[1])
    return told_of(choose(sheet, wanted), sheet, talk)


def _origin(sheet: Sheet, asked: str | None, id_column: str | None) -> str:
    """The column that was asked for, else `origin`, else the one that is called as the names of the patterns are."""
    for name in (asked, ORIGIN, id_column):
        if name is not None and (name == asked or name in sheet.columns):
            return name
    raise RequestError(f"`{sheet.path}` has no column `origin`. Say which one names the origins: `--origin COLUMN`.")
