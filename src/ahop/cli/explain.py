"""`ahop explain`: why a query is answered as it is."""

from dataclasses import replace
from html import escape
from pathlib import Path
from typing import Annotated, Any

import typer

from ahop.cli import arguments
from ahop.cli.fit import sentences
from ahop.cli.pictures import check_picture, save_picture
from ahop.cli.running import RequestError
from ahop.cli.sources import is_store, labels_of, load_asked, read_queries
from ahop.cli.tables.choosing import Wanted
from ahop.cli.tables.saving import check_output, write_text
from ahop.cli.talk import Talk, grid

UNKNOWN = "unknown"
PAGE = '<!doctype html>\n<html lang="en"><meta charset="utf-8"><title>{title}</title>\n<body>{body}</body></html>\n'


def explain(
    talk: Talk,
    memory: arguments.Memory,
    query: arguments.Queries,
    row: Annotated[int | None, typer.Option(min=0, help="Which row of the file, from 0; default the first.")] = None,
    against: Annotated[
        str | None,
        typer.Option(help="The rival: the name of a pattern, or `unknown` for none of them. Default: the next best."),
    ] = None,
    html: Annotated[Path | None, typer.Option(help="Write a page with a table.", metavar="FILE")] = None,
    png: arguments.Picture = None,
    id: arguments.Id = None,
    group: arguments.Group = None,
    columns: arguments.Columns = None,
    ignore: arguments.Ignore = None,
    force: arguments.Force = False,
) -> None:
    """Say why one query is answered as it is.

    What each column says for the answer, and against its rival; all together are the odds.
    """
    check_picture(png, force)
    if html is not None:
        check_output(html, force, (".html", ".htm"))
    asker = load_asked(memory, talk)
    wanted = Wanted.by(id, columns, ignore, group=group)
    table = read_queries(query, asker, talk, wanted)
    if row is None and len(table) > 1:
        talk.note(f"{query.name} has {len(table)} rows: the first is explained; `--row 1` is the second.")
    place = row or 0
    if place >= len(table):
        raise RequestError(f"`--row` must lie in 0..{len(table) - 1}, as `{query}` has {len(table)} rows; got {place}.")
    groups = table.role("group")
    with talk.phase("explaining"):
        labels = labels_of(asker)
        why = asker.explain(
            table.values[place],
            against=_rival(asker, labels, against),
            group=None if groups is None else groups[place],
        )
        if is_store(memory) and labels is not None:
            why = replace(why, answer=labels.get(why.answer, why.answer), rival=labels.get(why.rival, why.rival))
    if html is not None:
        write_text(html, PAGE.format(title=escape(why.headline), body=why._repr_html_()), force)
    if png is not None:
        from ahop.plots.single_answers import WaterfallDisplay

        save_picture(png, WaterfallDisplay.from_explanation(why).plot(), force)
    shown = [[bar.name, _format(bar.seen), bar.word, f"{bar.log_odds:+.2f}"] for bar in why.shown()]
    titles = ["column", "value", "what it says", "log-odds"]
    talk.say(f"Query {table.names[place]}: {sentences(str(why))[0]}", grid(titles, shown, ("value", "log-odds")))
    talk.say(*(f"Written to {path}." for path in (html, png) if path is not None))
    talk.document(
        command="explain",
        query=table.names[place],
        answer=why.answer,
        rival=why.rival,
        posterior=why.posterior,
        log_odds=why.log_odds,
        words=str(why),
        bars=why.rows(),
    )


def _rival(asker: Any, labels: dict[int, object] | None, against: str | None) -> object:
    """As the memory calls it: by its label, of whatever type that is; a store by its number."""
    known: dict[object, object] = {} if labels is None else {str(label): number for number, label in labels.items()}
    if against is None or (against == UNKNOWN and against not in known):
        return against
    if labels is None:
        if not against.isdigit():
            raise RequestError(f"`--against` must be the row of a pattern, from 0, or `unknown`; got {against!r}.")
        return int(against)
    if against not in known:
        some = next(iter(labels.values()))
        raise RequestError(f"`--against` must be the name of a pattern, such as {some!r}; got {against!r}.")
    number = known[against]
    return number if getattr(asker, "labels", None) is None else asker.labels[number]


def _format(value: float | str | None) -> str:
    if isinstance(value, str):
        return value
    return "" if value is None else "missing" if value != value else f"{value:.4g}"
