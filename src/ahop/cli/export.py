"""`ahop export`: a file that numpy alone recalls from."""

from pathlib import Path
from typing import Annotated

import typer

from ahop.cli import arguments
from ahop.cli.sources import load_memory
from ahop.cli.tables.saving import check_output, written
from ahop.cli.talk import Talk


def export(
    talk: Talk,
    memory: Annotated[Path, typer.Argument(metavar="MEMORY", help="A memory that `ahop fit` wrote.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The file to write, such as rooms.npz.")],
    force: arguments.Force = False,
) -> None:
    """Write a memory for places without PyTorch.

    `ahop/scorer.py`, one file of 200 lines that needs numpy alone, recalls from it.
    """
    check_output(output, force, (".npz",))
    learned = load_memory(memory, talk)
    with written(output, force) as beside:
        learned.export(beside)
    size = output.stat().st_size
    talk.say(f"{len(learned)} patterns are in {output}, {size / 1e6:.2f} MB. `ahop.scorer.Scorer` recalls from it.")
    talk.document(command="export", output=str(output), patterns=len(learned), bytes=size)
