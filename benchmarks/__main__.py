"""`python -m benchmarks NAME [--json] [--full] [--save]`."""

import argparse
import importlib
import json
import sys
from pathlib import Path

NAMES = sorted(path.stem for path in Path(__file__).parent.glob("*.py") if not path.stem.startswith("_"))
NAMES.remove("measuring")
RESULTS = Path(__file__).parent.parent / "docs" / "results"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("name", choices=NAMES)
    parser.add_argument("--json", action="store_true", help="end with one line of JSON")
    parser.add_argument("--full", action="store_true", help="more repeats and larger sizes")
    parser.add_argument("--save", action="store_true", help="keep the figures for the page of results")
    chosen = parser.parse_args(arguments)
    benchmark = importlib.import_module(f"benchmarks.{chosen.name}")
    result = benchmark.measure(full=chosen.full)
    if chosen.save:
        command = " ".join(["python -m benchmarks", chosen.name, *["--full"] * chosen.full, "--save"])
        kept = {"title": benchmark.__doc__, "command": command, "figures": result}
        (RESULTS / f"benchmark_{chosen.name}.json").write_text(json.dumps(kept, indent=1) + "\n")
    for name, value in result.items():
        print(f"{name}: {value}")
    if chosen.json:
        print(json.dumps(result))
    return 0


if __name__ == "__main__":
    sys.exit(main())
