"""`python -m experiments NAME [--quick] [--seeds N] [--jobs N] [--only WORD] [--json]`."""

import argparse
import importlib
import json
import sys
from pathlib import Path

from experiments.support.harness import Experiment, perform, table, table_of_differences

# Every experiment and where it stands.
PLACES = {
    path.stem: f"experiments.{folder}.{path.stem}"
    for folder in ("paper", "claims")
    for path in (Path(__file__).parent / folder).glob("*.py")
    if "\nEXPERIMENT = " in path.read_text()
}
NAMES = sorted(PLACES)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m experiments", description=__doc__)
    parser.add_argument("name", choices=NAMES)
    parser.add_argument(
        "--quick", action="store_true", help="one seed, fewer queries, at most two minutes; saves nothing"
    )
    parser.add_argument("--seeds", type=int, help="how many seeds; each experiment has its own default")
    parser.add_argument("--resume", action="store_true", help="keep the cells that the result file already has")
    parser.add_argument("--jobs", type=int, default=1, help="cells to run at once, each in a process of one thread")
    parser.add_argument(
        "--only", help="run the cells that have this value, such as one model; --resume adds the others"
    )
    parser.add_argument("--json", action="store_true", help="end with one line of JSON")
    parser.add_argument("--no-progress", action="store_true")
    chosen = parser.parse_args(arguments)
    experiment: Experiment = importlib.import_module(PLACES[chosen.name]).EXPERIMENT
    result = perform(
        experiment,
        quick=chosen.quick,
        seeds=chosen.seeds,
        resume=chosen.resume,
        jobs=chosen.jobs,
        only=chosen.only,
        progress=not chosen.no_progress,
    )
    print(experiment.title)
    print(table(result["rows"], [*experiment.keys, *experiment.metrics, *experiment.words]))
    if chosen.quick and "The quick form" in experiment.notes:
        print(f"\nThe quick form{experiment.notes.partition('The quick form')[2]}")
    if apart := table_of_differences(result):
        print(f"\n{apart}")
    if chosen.json:
        print(json.dumps(result))
    return 0


if __name__ == "__main__":
    sys.exit(main())
