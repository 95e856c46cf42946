"""`python -m benchmarks NAME [--json] [--full]`."""

import argparse
import importlib
import json
import sys
from pathlib import Path

NAMES = sorted(path.stem for path in Path(__file__).parent.glob("*.py") if not path.stem.startswith("_"))
NAMES.remove("measuring")


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("name", choices=NAMES)
    parser.add_argument("--json", action="store_true", help="end with one line of JSON")
    parser.add_argument("--full", action="store_true", help="more repeats and larger sizes")
    chosen = parser.parse_args(arguments)
    result = importlib.import_module(f"benchmarks.{chosen.name}").measure(full=chosen.full)
    for name, value in result.items():
        print(f"{name}: {value}")
    if chosen.json:
        print(json.dumps(result))
    return 0


if __name__ == "__main__":
    sys.exit(main())
