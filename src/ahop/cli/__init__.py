"""The command line `ahop`. It needs `pip install "ahop[cli]"`."""

import sys
from importlib import import_module

NEEDED = ("typer", "rich")
USAGE = 2


def main() -> None:
    """What the console script `ahop` runs."""
    try:
        for name in NEEDED:
            import_module(name)
    except ImportError:
        print('The command line needs two more packages: pip install "ahop[cli]"', file=sys.stderr)
        raise SystemExit(USAGE) from None
    from ahop.cli.app import app

    app(prog_name="ahop")
