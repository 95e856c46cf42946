"""`python -m ahop.service PATH...`: answer from memories and stores over HTTP."""

import argparse
import sys
from pathlib import Path

from ahop.errors import AhopError
from ahop.service.http.server import keys_of, run
from ahop.service.options import Options


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="python -m ahop.service", description=__doc__)
    made.add_argument("paths", nargs="*", metavar="PATH", help="a memory's file or a store's folder; or NAME=PATH")
    made.add_argument("--host", default="127.0.0.1", help="where to listen; others than the loopback need a key")
    made.add_argument("--port", type=int, default=8000, help="0 for one that is free")
    made.add_argument("--keys", metavar="FILE", help="JSON file of keys; or set AHOP_KEY to the secret of one")
    made.add_argument("--workers", type=int, default=1, help="processes that answer; several only read")
    made.add_argument("--create-in", metavar="FOLDER", type=Path, help="where requests may create collections")
    made.add_argument("--follow", type=float, default=0.0, metavar="SECONDS", help="look for what others have written")
    made.add_argument("--index", action="store_true", help="answer from files through indexes, kept beside them")
    made.add_argument("--shards", type=int, default=0, help="hold stores in so many shards of a Ray cluster")
    made.add_argument("--replicas", type=int, default=1, help="processes for each shard")
    made.add_argument("--ray", metavar="ADDRESS", help="of the Ray cluster; default RAY_ADDRESS, or one of our own")
    made.add_argument("--no-compaction", action="store_true", help="leave stores as they are, however many parts")
    made.add_argument("--review", type=int, default=0, help="keep so many doubtful answers, with queries, in memory")
    made.add_argument("--watch", type=int, default=0, help="keep so many of the last queries, to see what has moved")
    made.add_argument("--log-accepted", action="store_true", help="log each request when its headers are here, too")
    return made


def main(arguments: list[str] | None = None) -> int:
    chosen = parser().parse_args(arguments)
    try:
        options = Options(
            keys=keys_of(chosen.keys),
            review=max(0, chosen.review),
            watch=max(0, chosen.watch),
            follow_seconds=max(0.0, chosen.follow),
            create_in=chosen.create_in,
            index=chosen.index,
            shards=max(0, chosen.shards),
            replicas=chosen.replicas,
            ray=chosen.ray,
            log_accepted=chosen.log_accepted,
            compact_seconds=0.0 if chosen.no_compaction else Options.compact_seconds,
        )
        run(chosen.paths, host=chosen.host, port=chosen.port, options=options, workers=chosen.workers)
    except AhopError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
