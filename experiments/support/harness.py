"""What every experiment shares: cells to run, a result file that can be resumed, a table, a line of JSON."""

import json
import platform
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from datetime import UTC, datetime
from multiprocessing import get_context
from pathlib import Path
from statistics import mean, stdev
from typing import Any, TypeAlias

import numpy
import torch
from tqdm.auto import tqdm

import ahop

Row: TypeAlias = dict[str, Any]

RESULTS = Path(__file__).parents[2] / "docs" / "results"


@dataclass(frozen=True)
class Experiment:
    """A grid of cells, each run on its own, and how their rows become a table and a picture.

    Attributes:
        name: of the module and of the result file.
        title: one line for people.
        seeds: how many the full form takes.
        cells: (seeds, quick) -> what to run; a cell is a row of plain values with a "seed".
        run: a cell and quick -> rows.
        keys: what tells two lines of the table apart.
        metrics: what is averaged over seeds.
        words: what is said in words; where seeds differ, each word with how often.
        tallies: lists of counts, which are added up over seeds.
        summarize: the averaged rows -> further ones, such as a mean over settings.
        headline: all rows -> the few figures that stand beside them in the result.
        differences: the rows of every seed, not averaged -> how far models are apart, seed by seed.
        draw: rows and a path -> a picture; None if a table says it all.
    """

    name: str
    title: str
    seeds: int
    cells: Callable[[int, bool], list[Row]]
    run: Callable[[Row, bool], list[Row]]
    keys: Sequence[str]
    metrics: Sequence[str]
    words: Sequence[str] = ()
    tallies: Sequence[str] = ()
    summarize: Callable[[list[Row]], list[Row]] | None = None
    headline: Callable[[list[Row]], Row] | None = None
    differences: Callable[[list[Row]], list[Row]] | None = None
    draw: Callable[[list[Row], Path], None] | None = None
    notes: str = ""


def perform(
    experiment: Experiment,
    *,
    quick: bool,
    seeds: int | None,
    resume: bool,
    progress: bool,
    jobs: int = 1,
    only: str | None = None,
) -> Row:
    """Run every cell, and keep each as it finishes, so that an interrupted run can go on.

    What is unfinished is kept in a folder of its own; a result file is always whole. With several jobs, each cell runs
    in a process of one thread: cells are many and small. `only` runs the cells that have this value and leaves the
    others for later.
    """
    count = 1 if quick else seeds or experiment.seeds
    path = RESULTS / f"{experiment.name}.json"
    unfinished = RESULTS / "unfinished" / path.name
    wanted = experiment.cells(count, quick)
    kept = [each for each in (unfinished, path) if each.exists()]
    done: list[Row] = json.loads(kept[0].read_text())["runs"] if resume and kept else []
    places = {json.dumps(cell): place for place, cell in enumerate(wanted)}
    done = [run for run in done if json.dumps(run["cell"]) in places]
    had = {json.dumps(run["cell"]) for run in done}
    asked = [cell for cell in wanted if only is None or only in map(str, cell.values())]
    missing = [cell for cell in asked if json.dumps(cell) not in had]
    started = time.perf_counter()
    for run in tqdm(
        _runs(experiment, missing, quick, jobs), desc=experiment.name, total=len(missing), disable=not progress
    ):
        done.append(run)
        if not quick:
            _save(unfinished, _result(experiment, places, done, quick, count, started), done)
    result = _result(experiment, places, done, quick, count, started)
    if not quick and len(done) == len(wanted):
        _save(path, result, done)
        unfinished.unlink(missing_ok=True)
        if experiment.draw:
            experiment.draw(result["rows"], RESULTS / f"{experiment.name}.png")
    return result


def _runs(experiment: Experiment, cells: list[Row], quick: bool, jobs: int) -> Iterator[Row]:
    if jobs == 1:
        for cell in cells:
            yield {"cell": cell, "rows": experiment.run(cell, quick)}
        return
    with ProcessPoolExecutor(jobs, get_context("spawn"), torch.set_num_threads, (1,)) as pool:
        running = {pool.submit(experiment.run, cell, quick): cell for cell in cells}
        try:
            for finished in as_completed(running):
                yield {"cell": running[finished], "rows": finished.result()}
        finally:
            pool.shutdown(cancel_futures=True)  # hours of cells that nobody would keep after one has failed


def _result(
    experiment: Experiment, places: dict[str, int], done: list[Row], quick: bool, count: int, started: float
) -> Row:
    done.sort(key=lambda run: places[json.dumps(run["cell"])])
    by_seed = [row for run in done for row in run["rows"]]
    rows = over_seeds(by_seed, experiment.keys, experiment.metrics, experiment.words, experiment.tallies)
    rows += experiment.summarize(rows) if experiment.summarize else []
    return {
        "experiment": experiment.name,
        "title": experiment.title,
        "command": f"python -m experiments {experiment.name}",
        "quick": quick,
        "seeds": count,
        "cells": len(places),
        "notes": experiment.notes,
        **(experiment.headline(rows) if experiment.headline else {}),
        "rows": rows,
        **({"differences": experiment.differences(by_seed)} if experiment.differences else {}),
        "environment": environment(),
        "seconds": round(time.perf_counter() - started, 1),
    }


def _save(path: Path, result: Row, runs: list[Row]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    # A line for each run: there can be thousands.
    lines = ",\n  ".join(json.dumps(run) for run in runs)
    path.write_text(f'{json.dumps(result, indent=1)[:-2]},\n "runs": [\n  {lines}\n ]\n}}\n')


def over_seeds(
    rows: Iterable[Row],
    keys: Sequence[str],
    metrics: Sequence[str],
    words: Sequence[str] = (),
    tallies: Sequence[str] = (),
) -> list[Row]:
    """Rows that agree in `keys` become one, with the mean of each metric and its spread as `<metric>_std`.

    `std` alone is the spread of the first metric, the one that the table is about.
    """
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row[key] for key in keys), []).append(row)
    merged = []
    for group in groups.values():
        row = {**group[0], "runs": len(group)}
        for metric in metrics:
            values = [each[metric] for each in group if each.get(metric) is not None]
            row[metric] = round(mean(values), 5) if values else None
            row[f"{metric}_std"] = round(stdev(values), 5) if len(values) > 1 else None
        row["std"] = row[f"{metrics[0]}_std"]
        for word in words:
            row[word] = _votes([each[word] for each in group])
        for tally in tallies:
            row[tally] = [sum(places) for places in zip(*(each[tally] for each in group), strict=True)]
        row.pop("seed", None)
        merged.append(row)
    return merged


def table(rows: list[Row], columns: Sequence[str]) -> str:
    """Rows as a Markdown table."""
    lines = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    lines += ["| " + " | ".join(_cell(row, column) for column in columns) + " |" for row in rows]
    return "\n".join(lines)


def table_of_differences(result: Row) -> str | None:
    """How far models are apart, with a line that says how to read it; None where that was not asked."""
    rows = result.get("differences")
    return f"Paired by seed; *low* to *high* is the 95 % t-interval.\n\n{table(rows, list(rows[0]))}" if rows else None


def environment() -> Row:
    """What a reader needs to run it again."""
    revision = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, cwd=RESULTS.parent
    )
    return {
        "ahop": ahop.__version__,
        "revision": revision.stdout.strip() or None,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": numpy.__version__,
        "threads": torch.get_num_threads(),
        "machine": platform.machine(),
        "date": datetime.now(UTC).date().isoformat(),
    }


def _votes(words: list[str | None]) -> str | None:
    """The one that all agree on, or each with how often it came."""
    counts = Counter(word for word in words if word is not None).most_common()
    if len(counts) <= 1:
        return counts[0][0] if counts else None
    return ", ".join(f"{word} {count}" for word, count in counts)


def _cell(row: Row, column: str) -> str:
    value = row.get(column)
    if isinstance(value, float):
        spread = row.get(f"{column}_std")
        return f"{value:.3f}" + (f" ± {spread:.3f}" if spread is not None else "")
    if type(value) is int and value >= 10_000:
        return f"{value:,}"
    return "" if value is None else str(value)
