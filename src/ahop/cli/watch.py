"""`ahop watch`: is a memory still right, without labels?"""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from ahop.cli import arguments
from ahop.cli.fit import sentences
from ahop.cli.pictures import check_picture, save_picture
from ahop.cli.running import ALARM, Ended, RequestError
from ahop.cli.sources import is_store, load_asked, read_queries
from ahop.cli.tables.choosing import Wanted
from ahop.cli.talk import Talk, grid

SHOWN = 10


def watch(
    talk: Talk,
    memory: arguments.Memory,
    queries: arguments.Queries,
    reference: Annotated[
        Path | None, typer.Option(help="Queries of a better time; default some of the fit.", metavar="FILE")
    ] = None,
    windows: Annotated[int, typer.Option(min=1, help="Look at so many parts of the log one by one, too.")] = 1,
    false_alarms: Annotated[
        float, typer.Option(min=0.0, max=1.0, help="How often there may be an alarm though nothing has moved.")
    ] = 0.05,
    fail: Annotated[bool, typer.Option("--fail", help=f"End with the exit code {ALARM} if there is an alarm.")] = False,
    png: arguments.Picture = None,
    id: arguments.Id = None,
    group: arguments.Group = None,
    columns: arguments.Columns = None,
    ignore: arguments.Ignore = None,
    force: arguments.Force = False,
) -> None:
    """Tell, without labels, whether a memory is still right.

    How many answers are right, how many queries come from no stored pattern, and which columns have moved since the
    fit.
    """
    check_picture(png, force)
    if is_store(memory):
        raise RequestError("A store keeps no queries of its fit: watch the memory that it was made of.")
    asked = load_asked(memory, talk)
    wanted = Wanted.by(id, columns, ignore, group=group)
    table = read_queries(queries, asked, talk, wanted)
    then = None if reference is None else read_queries(reference, asked, talk, wanted)
    from ahop.operate.watching import watch as look

    with talk.phase("watching"):
        report = look(
            asked,
            table.values,
            reference=None if then is None else then.values,
            groups=table.role("group"),
            reference_groups=None if then is None else then.role("group"),
            windows=windows,
            false_alarms=false_alarms,
        )
    if png is not None:
        from ahop.plots.quality import WatchDisplay

        save_picture(png, WatchDisplay.from_report(report).plot(), force)
    moved = [[each.name, each.what, f"{each.before:.3g}", f"{each.now:.3g}", f"{each.p:.2g}"] for each in report.moved]
    titles = ["column", "what", "before", "now", "p"]
    shown = [grid(titles, moved[:SHOWN], titles[2:])] if moved else []
    more = [f"... and {len(moved) - SHOWN} more."] if len(moved) > SHOWN else []
    words = str(report).replace("or `ahop.adapt`", "or `ahop fit` again with these `--queries`")
    talk.say(*sentences(words), *shown, *more, *([f"Written to {png}."] if png is not None else []))
    talk.document(command="watch", words=words, drift=report.rows(), **_numbers(report))
    if fail and report.alarm:
        raise Ended(ALARM)


def _numbers(report: Any) -> dict[str, Any]:
    def one(each: Any) -> dict[str, Any]:
        accuracy, unknown = (None if share is None else asdict(share) for share in (each.accuracy, each.unknown))
        return {"queries": each.queries, "accuracy": accuracy, "unknown": unknown, "alarm": each.alarm}

    groups = {name: one(each) for name, each in report.groups.items()}
    return {**one(report), "groups": groups, "windows": [one(each) for each in report.windows]}
