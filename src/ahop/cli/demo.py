"""`ahop demo`: all of it, with no data and no labels."""

from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ahop.cli import arguments
from ahop.cli.fit import sentences
from ahop.cli.pictures import canvas, check_picture, save_picture
from ahop.cli.running import RequestError
from ahop.cli.tables.saving import check_output, write_table
from ahop.cli.talk import Talk, grid
from ahop.errors import MissingPackageError

if TYPE_CHECKING:
    from ahop.memory.explanation import Explanation

SCANS, ASKED = 400, 400
PICTURE = "ahop-demo"
BEFORE, AFTER = "#8a8f98", "#2a7f62"


def demo(
    talk: Talk,
    png: arguments.Picture = None,
    data: Annotated[
        Path | None,
        typer.Option(help="Only write the tables of the manual's examples into this folder.", metavar="FOLDER"),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of everything that is drawn.")] = 0,
    force: arguments.Force = False,
) -> None:
    """See all of it, with no data and no labels.

    Sixty rooms, and a phone that hears them badly: fit, recall, explain, and a picture.
    """
    if data is not None:
        _write_data(data, seed, force, talk)
        return
    check_picture(png, force)
    with talk.phase("loading torch"):
        import ahop.fitting.fit as fitting
        from ahop.datasets.building import Building
        from ahop.memory.memory import AssociativeMemory
        from ahop.similarities.euclidean import EuclideanSimilarity
    building = Building(seed)
    log, asked = building.scans(SCANS), building.scans(ASKED)
    talk.say(
        f"{len(building.names)} rooms were surveyed: how strong {len(building.points)} access points are in each.",
        f"A phone has sent {SCANS} scans. Where they were made, nobody knows. It hears too little, with noise, not all "
        "of the access points, and some wrongly.",
        "",
    )
    nearest = AssociativeMemory(building.values, EuclideanSimilarity(), labels=building.names)
    nearest.columns = building.points
    memory = fitting.fit(nearest, queries=log.values, similarity="auto", seed=seed, progress=talk.shows_bars)
    talk.say(*sentences(str(memory.report)), "")
    answer, plain = memory.recall(asked.values), nearest.recall(asked.values)
    right = float((answer.indices[:, 0] == asked.rooms).mean())
    before = float((plain.indices[:, 0] == asked.rooms).mean())
    talk.say(
        f"Of {ASKED} new scans the nearest room is right for {100 * before:.0f} %, ahop for {100 * right:.0f} %. "
        "It has never seen a label: nobody can tell yet whether its probabilities are right.",
        "",
    )
    place = _telling(answer.indices[:, 0], plain.indices[:, 0], asked.rooms)
    why = memory.explain(asked.values[place])
    talk.say(
        f"One of them: the nearest room is {building.names[plain.indices[place, 0]]}, ahop says {why.answer}, and it "
        f"was {building.names[asked.rooms[place]]}.",
        *sentences(str(why)),
    )
    path = _draw(before, right, why, png, force)
    if path is None:
        shown = [[bar.name, bar.word, f"{bar.log_odds:+.2f}"] for bar in why.shown()]
        talk.say("", grid(["column", "what it says", "log-odds"], shown, ("log-odds",)))
        talk.note('There is a picture of this with `pip install "ahop[plots]"`.')
    else:
        talk.say("", f"The picture is in {path}.")
    talk.say("Next, with files: `ahop demo --data .` writes tables like these, and docs/cli.md goes on from there.")
    talk.document(command="demo", nearest=before, right=right, report=str(memory.report), words=str(why), png=path)


def _telling(found: Any, plain: Any, rooms: Any) -> int:
    """A scan that is answered right, and that the nearest room is wrong for; else the first."""
    places = ((found == rooms) & (plain != rooms)).nonzero()[0]
    return int(places[0]) if len(places) else 0


def _draw(before: float, right: float, why: "Explanation", png: Path | None, force: bool) -> str | None:
    """Draw the picture and return its path; None without matplotlib."""
    try:
        pyplot = canvas()
    except MissingPackageError:
        return None
    from ahop.plots.single_answers import WaterfallDisplay

    path = _free_name() if png is None else png
    figure, (left, middle) = pyplot.subplots(
        1, 2, figsize=(11, 4.6), width_ratios=(1, 2.2), layout="constrained", gridspec_kw={"wspace": 0.06}
    )
    bars = left.bar(["nearest room", "ahop,\nwithout labels"], [100 * before, 100 * right], color=[BEFORE, AFTER])
    left.bar_label(bars, fmt="%.0f %%", padding=3)
    left.set(ylim=(0, 110), yticks=[])
    left.set_title("scans that found their room", loc="left", fontsize="medium")
    for side in ("top", "right", "left"):
        left.spines[side].set_visible(False)
    WaterfallDisplay.from_explanation(why).plot(middle)
    figure.suptitle(f"A phone that hears rooms badly: learned from {SCANS} scans, without a label", x=0.01, ha="left")
    save_picture(path, figure, force)
    return str(path)


def _free_name() -> Path:
    names = (Path(f"{PICTURE}{'' if number == 1 else f'-{number}'}.png") for number in count(1))
    return next(name for name in names if not name.exists())


def _write_data(folder: Path, seed: int, force: bool, talk: Talk) -> None:
    from ahop.datasets.building import demo_tables

    if not folder.is_dir():
        raise RequestError(f"`{folder}` is no folder. Make it first: `mkdir -p {folder}`.")
    tables = demo_tables(seed)
    for name in tables:
        check_output(folder / name, force)
    for name, columns in tables.items():
        write_table(folder / name, columns, force)
    talk.say(f"Written to {folder}: {', '.join(tables)}.")
    talk.document(command="demo", written=[str(folder / name) for name in tables])
