"""Queries of one model, asked of rows that another model has stored."""

from dataclasses import dataclass
from functools import cache

import numpy as np
import torch
from numpy.typing import NDArray

from experiments.datasets import load_debian_text
from experiments.support.harness import Experiment, Row
from experiments.support.measures import calibration_error, pooled_error, reliability, tallied
from experiments.support.space_peers import Rows, Spaces, adapters, calibrated, posterior

# The model that stored the long descriptions, the one that is asked with, and which of its vectors: the same document,
# or its short description.
TASKS = {
    "WordLlama asked by USE, the same document": ("wl256", "use512", "long"),
    "WordLlama asked by MiniLM, the same document": ("minilm_wl256", "minilm384", "long"),
    "WordLlama asked by GloVe, short": ("wl256", "glove100", "short"),
    "WordLlama asked by MiniLM, short": ("minilm_wl256", "minilm384", "short"),
}
COUNTS, ASKED, BANK = (256, 1024, 4096), 500, 400


@dataclass(frozen=True)
class Drawn:
    """Vectors of one draw, and the row that each query asks for; `again` is all by the model that asks."""

    spaces: Spaces
    origins: NDArray[np.int64]
    again: Rows


@cache
def vectors(model: str, length: str) -> Rows:
    texts = load_debian_text(model)
    found = texts.long if length == "long" else texts.short
    assert found is not None
    return found


def drawn(task: str, count: int, seed: int) -> Drawn:
    stored_by, asked_by, length = TASKS[task]
    stored, others = vectors(stored_by, "long"), vectors(asked_by, length)
    order = np.random.default_rng(seed).permutation(len(stored))
    asked, bank, pairs = order[:ASKED], order[ASKED : ASKED + BANK], order[ASKED + BANK :][:count]
    spaces = Spaces(stored, pairs, others[pairs], others[asked], others[bank])
    return Drawn(spaces, asked, others[asked] @ vectors(asked_by, "long").T)


def cells(seeds: int, quick: bool) -> list[Row]:
    counts = COUNTS[:1] if quick else COUNTS
    return [
        {"task": task, "pairs": count, "of": of, "seed": seed}
        for of in ("adapters",)
        for seed in range(seeds)
        for task in TASKS
        for count in counts
        if count + ASKED + BANK <= len(vectors(TASKS[task][0], "long"))
    ]


def run(cell: Row, quick: bool) -> list[Row]:
    found = drawn(cell["task"], cell["pairs"], cell["seed"])
    rows: list[Row] = []
    for name, scored in adapters(found.spaces, cell["seed"]):
        setting = calibrated(scored.held_out, found.spaces.origins[scored.rows])
        rows.append({**cell, "way": name, **judged(posterior(scored.asked, *setting), found.origins)})
    hits = (found.again > found.again[np.arange(ASKED), found.origins][:, None]).sum(1) == 0
    rows.append({**cell, "way": "re-embedded, cosine", "top1": float(hits.mean()), **NOTHING})
    return rows


# Tallies of rows that tell no probability.
NOTHING: Row = {"count": [], "said": [], "hits": []}


def judged(probabilities: Rows, origins: NDArray[np.int64]) -> Row:
    own = probabilities[np.arange(len(origins)), origins]
    confidence = torch.from_numpy(probabilities.max(1).astype(np.float64))
    right = torch.from_numpy(probabilities.argmax(1) == origins)
    return {
        "top1": float(right.double().mean()),
        "top10": float(((probabilities > own[:, None]).sum(1) < 10).mean()),
        "log_loss": float(-np.log(np.maximum(own, 1e-30)).mean()),
        "ece": calibration_error(*reliability(confidence, right)),
        **tallied(confidence, right),
    }


def summarize(rows: list[Row]) -> list[Row]:
    for row in rows:
        row["ece_pooled"] = pooled_error([row])
    return []


EXPERIMENT = Experiment(
    name="two_spaces",
    title="Queries of another model, asked of rows that are stored already",
    seeds=3,
    cells=cells,
    run=run,
    keys=("task", "pairs", "way"),
    metrics=("top1", "top10", "log_loss", "ece"),
    tallies=("count", "said", "hits"),
    summarize=summarize,
    notes=(
        "Descriptions of Debian's packages: 20,000 stored by WordLlama (256 columns) where USE (512) and GloVe (100) "
        "ask, 3,500 where MiniLM (384) does, which leaves no 4,096 pairs. *the same document*: the query is the stored "
        "text by the other model; *short*: its short description, in pairs as in queries. 500 queries a draw, none of "
        "them in a pair; CSLS sees 400 others without labels. *centred* takes the mean of the stored rows off both "
        "sides. Temperature, floor and ridge of an adapter are those that do best on pairs held out, a quarter and at "
        "most 200; the network is of the first draw alone. *re-embedded*: everything by the model that asks, without "
        "any pair; 1 where a document asks for itself. *ece_pooled* is of the queries of all seeds together."
    ),
)
