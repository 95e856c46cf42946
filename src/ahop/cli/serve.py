"""`ahop serve`: answers over HTTP."""

from pathlib import Path
from typing import Annotated

import typer

from ahop.cli.running import RequestError
from ahop.cli.talk import Talk

LOOPBACK = "127.0.0.1"


def serve(
    talk: Talk,
    paths: Annotated[list[str], typer.Argument(metavar="PATH...", help="Memories and stores; NAME=PATH to name them.")],
    host: Annotated[str, typer.Option(help="Where to listen; others than the loopback need a key.")] = LOOPBACK,
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 for one that is free.")] = 8000,
    keys: Annotated[
        Path | None, typer.Option(help="A JSON file of keys; or set AHOP_KEY to the secret of one.", metavar="FILE")
    ] = None,
    review: Annotated[int, typer.Option(min=0, help="Keep so many doubtful answers, with their queries.")] = 0,
) -> None:
    """Answer over HTTP, until it is told to end.

    Needs `ahop[serve]`.
    """
    given = [_named(each) for each in paths]
    for _, path in given:
        if "://" not in path and not Path(path).exists():
            raise RequestError(f"`{path}` is not there.")
    if any(name for name, _ in given) and not all(name for name, _ in given):
        raise RequestError("Name all of them, as NAME=PATH, or none.")
    with talk.phase("loading"):
        from ahop import service
    options = service.Options(keys=() if keys is None else tuple(service.read_keys(keys)), review=review)
    served = dict(given) if given[0][0] else [path for _, path in given]
    service.run(served, host=host, port=port, options=options)


def _named(path: str) -> tuple[str, str]:
    """The name before the first `=`, empty if there is none, and the path."""
    name, mark, rest = path.partition("=")
    return (name, rest) if mark else ("", path)
