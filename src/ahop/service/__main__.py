"""`python -m ahop.service PATH...`: answer from memories and stores over HTTP."""

import argparse
import sys

from ahop.errors import AhopError
from ahop.service.options import Options
from ahop.service.server import keys_of, run


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="python -m ahop.service", description=__doc__)
    made.add_argument("paths", nargs="+", metavar="PATH", help="a memory's file or a store's folder; or NAME=PATH")
    made.add_argument("--host", default="127.0.0.1", help="where to listen; others than the loopback need a key")
    made.add_argument("--port", type=int, default=8000, help="0 for one that is free")
    made.add_argument("--keys", metavar="FILE", help="JSON file of keys; or set AHOP_KEY to the secret of one")
    made.add_argument("--review", type=int, default=0, help="keep so many doubtful answers, with queries, in memory")
    return made


def main(arguments: list[str] | None = None) -> int:
    chosen = parser().parse_args(arguments)
    try:
        options = Options(keys=keys_of(chosen.keys), review=max(0, chosen.review))
        run(chosen.paths, host=chosen.host, port=chosen.port, options=options)
    except AhopError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
