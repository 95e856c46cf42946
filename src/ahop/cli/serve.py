"""`ahop serve`: answers over HTTP."""

from pathlib import Path
from typing import Annotated

import typer

from ahop.cli.talk import Talk

LOOPBACK = "127.0.0.1"


def serve(
    talk: Talk,
    paths: Annotated[
        list[str] | None, typer.Argument(metavar="PATH...", help="Memories and stores; NAME=PATH to name them.")
    ] = None,
    host: Annotated[str, typer.Option(help="Where to listen; others than the loopback need a key.")] = LOOPBACK,
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 for one that is free.")] = 8000,
    keys: Annotated[
        Path | None, typer.Option(help="A JSON file of keys; or set AHOP_KEY to the secret of one.", metavar="FILE")
    ] = None,
    review: Annotated[int, typer.Option(min=0, help="Keep so many doubtful answers, with their queries.")] = 0,
    watch: Annotated[int, typer.Option(min=0, help="Keep so many of the last queries, to see what has moved.")] = 0,
    workers: Annotated[int, typer.Option(min=1, help="Processes that answer; several only read.")] = 1,
    create_in: Annotated[
        Path | None, typer.Option(help="A folder in which requests may create collections.", metavar="FOLDER")
    ] = None,
    follow: Annotated[float, typer.Option(min=0, help="Seconds between looks for what others have written.")] = 0.0,
    index: Annotated[
        bool, typer.Option("--index", help="Answer from memories through indexes, kept beside them.")
    ] = False,
    shards: Annotated[int, typer.Option(min=0, help="Hold stores in so many shards of a Ray cluster.")] = 0,
    replicas: Annotated[int, typer.Option(min=1, help="Processes for each shard.")] = 1,
    ray: Annotated[
        str | None, typer.Option(help="The Ray cluster; default RAY_ADDRESS, or one of our own.", metavar="ADDRESS")
    ] = None,
    compaction: Annotated[bool, typer.Option(help="Compact stores of many parts now and then.")] = True,
    log_accepted: Annotated[
        bool, typer.Option("--log-accepted", help="Log each request when its headers are here, too.")
    ] = False,
) -> None:
    """Run the HTTP server.

    Needs `ahop[serve]`.
    """
    with talk.phase("loading"):
        from ahop import service
    options = service.Options(
        keys=() if keys is None else service.read_keys(keys),
        review=review,
        watch=watch,
        follow_seconds=follow,
        create_in=create_in,
        index=index,
        shards=shards,
        replicas=replicas,
        ray=ray,
        log_accepted=log_accepted,
        compact_seconds=service.Options.compact_seconds if compaction else 0.0,
    )
    service.run(paths or [], host=host, port=port, options=options, workers=workers)
