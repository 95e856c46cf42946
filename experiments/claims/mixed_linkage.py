"""Which rows of two tables with words, codes and numbers belong together? Beside the tools of record linkage."""

import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

import ahop
from experiments.support import linkage_peers
from experiments.support.harness import Experiment, Row
from experiments.support.linkage_tasks import TASKS, Task, jaro_winkler, task_of
from experiments.support.measures import calibration_error, f1, reliability

# A pair counts as a link from here on; and thresholds among which the best is sought afterwards.
HALF, THRESHOLDS = 0.5, np.concatenate([np.linspace(0.05, 0.95, 19), 1 - np.logspace(-2, -8, 7)])


def cells(seeds: int, quick: bool) -> list[Row]:
    return [{"task": task, "seed": seed} for seed in range(seeds) for task in TASKS]


def run(cell: Row, quick: bool) -> list[Row]:
    task = task_of(cell["task"], cell["seed"], quick)
    rows = [_ahop(task)]
    if task.texts:
        rows.append({**_ahop(task, with_words=False), "method": "ahop, numbers and codes alone"})
    else:
        rows.append({**_ahop(task, with_codes=False), "method": "ahop, numbers alone"})
    for name, peer in {
        "Splink 5": lambda: linkage_peers.splink(task, cell["seed"]),
        "recordlinkage, ECM": lambda: linkage_peers.ecm(task),
    }.items():
        rows.append(_peer(name, peer, task))
    return [{**cell, "left": len(task.left), "right": len(task.right), **row} for row in rows]


def _ahop(task: Task, with_words: bool = True, with_codes: bool = True) -> Row:
    names = [name for name in task.left.columns if name not in task.texts and (with_codes or name not in task.codes)]
    started, worked = time.perf_counter(), time.process_time()
    comparisons = {name: jaro_winkler(task, name) for name in task.texts} if with_words and task.texts else None
    links = ahop.link(task.left[names], task.right[names], comparisons=comparisons, progress=False)
    seconds = {"seconds": time.perf_counter() - started, "cpu_seconds": time.process_time() - worked}
    is_right = links.linked[links.right] == task.origins[links.right]
    found = _measured(links.linked, task)
    ece = calibration_error(*reliability(_tensor(links.probability), _tensor(is_right)))
    said = {"said": float(links.probability.mean()), "ece": ece} if len(links) else {"said": None, "ece": None}
    return {"method": "ahop", **found, **said, **seconds}


def _peer(name: str, peer: Any, task: Task) -> Row:
    started, worked = time.perf_counter(), time.process_time()
    scored = peer()
    linked = linkage_peers.one_to_one(scored, task, HALF)
    seconds = {"seconds": time.perf_counter() - started, "cpu_seconds": time.process_time() - worked}
    best = max(_measured(linkage_peers.one_to_one(scored, task, each), task)["f1"] for each in THRESHOLDS)
    return {"method": name, **_measured(linked, task), "f1_best": best, **seconds}


def _measured(linked: NDArray[np.int64], task: Task) -> Row:
    is_link, is_right = linked >= 0, (linked >= 0) & (linked == task.origins)
    return {
        "f1": f1(_tensor(linked), _tensor(task.origins)),
        "precision": float(is_right.sum() / max(is_link.sum(), 1)),
        "recall": float(is_right.sum() / max((task.origins >= 0).sum(), 1)),
    }


def _tensor(values: NDArray[Any]) -> Any:
    import torch

    return torch.from_numpy(np.ascontiguousarray(values))


EXPERIMENT = Experiment(
    name="mixed_linkage",
    title="Tables of words, codes and numbers",
    seeds=3,
    cells=cells,
    run=run,
    keys=("task", "method"),
    metrics=("f1", "f1_best", "precision", "recall", "said", "ece", "left", "right", "seconds", "cpu_seconds"),
    notes=(
        "Two tables are linked one to one without labels. *FEBRL 4*: 5,000 people and a copy of each with typing "
        "errors; words are given to `ahop.link` as similarities by Jaro and Winkler, in its time; *3 in 10 unmatched, "
        "no keys*: without the date of birth and the number of social security, and 3,500 rows, three in ten without a "
        "copy. *adult*, *bank*: rows of real tables, three in ten without a copy; in copies three in ten numbers are "
        "off by 3 %, one entry in twenty is that of another row, one in ten is missing. *Splink 5*: levels of names, "
        "letters, relative differences of 1, 5 and 20 %, and exact codes with term frequencies, estimated as its "
        "manual says, all pairs where they are fewer than four millions; *recordlinkage*: its classifier without "
        "labels. Links of both are made one to one, likeliest first, from a probability of one half on; *f1_best* is "
        "by the threshold that is best afterwards. *ece*, *said*: of the probabilities of the links."
    ),
)
