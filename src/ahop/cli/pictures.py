"""Pictures in files."""

import os
from pathlib import Path
from typing import Any

from ahop._core.optional import pyplot
from ahop.cli.tables.saving import check_output, written

ENDINGS = (".png", ".svg", ".pdf")


def check_picture(path: Path | None, force: bool) -> None:
    """Refuse a picture that cannot be drawn or written, before any work is done."""
    if path is not None:
        check_output(path, force, ENDINGS)
        canvas()


def canvas() -> Any:
    """`matplotlib.pyplot`, which needs no screen."""
    os.environ.setdefault("MPLBACKEND", "Agg")
    return pyplot()


def save_picture(path: Path, figure: Any, force: bool) -> None:
    with written(path, force) as beside:
        figure.savefig(beside, format=path.suffix.lower()[1:], dpi=150)
    canvas().close(figure)
