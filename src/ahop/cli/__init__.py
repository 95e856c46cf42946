"""The command line `ahop`. It needs `pip install "ahop[cli]"`."""

import sys

NEEDED = ("typer", "rich")
USAGE = 2


def main() -> None:
    """Entry point of the console script `ahop`."""
    try:
        from ahop.cli.commands import app
    except ImportError as error:
        if (error.name or "").partition(".")[0] not in NEEDED:
            raise
        print('The command line needs two more packages: pip install "ahop[cli]"', file=sys.stderr)
        raise SystemExit(USAGE) from None
    app(prog_name="ahop")
