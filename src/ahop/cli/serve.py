"""`ahop serve`: answers over HTTP."""

from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from ahop.cli.running import RequestError
from ahop.cli.talk import Talk
from ahop.errors import MissingPackageError


def serve(
    talk: Talk,
    paths: Annotated[list[Path], typer.Argument(metavar="PATH...", help="Memories and stores.")],
    host: Annotated[
        str, typer.Option(help="The address to listen at; others can reach what is not 127.0.0.1.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port to listen at.")] = 8000,
) -> None:
    """Answer over HTTP, with a page to look at."""
    for path in paths:
        if "://" not in str(path) and not path.exists():
            raise RequestError(f"`{path}` is not there.")
    if find_spec("ahop.service") is None:
        raise MissingPackageError("This release has no service. `ahop recall` answers files.")
    import_module("ahop.service").run([str(path) for path in paths], host=host, port=port)
