"""Queries of one model, asked of rows that another model has stored."""

from dataclasses import dataclass, replace
from functools import cache

import faiss
import numpy as np
import torch
from numpy.typing import NDArray

import ahop
from ahop.errors import InvalidValueError
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
# Of an index, that are reranked.
CANDIDATES = 100


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
        for of in ("adapters", "ahop")
        for seed in range(seeds)
        for task in TASKS
        for count in counts
        if count + ASKED + BANK <= len(vectors(TASKS[task][0], "long"))
    ]


def run(cell: Row, quick: bool) -> list[Row]:
    found = drawn(cell["task"], cell["pairs"], cell["seed"])
    return [{**cell, **row} for row in (learned(found) if cell["of"] == "ahop" else adapted(found, cell["seed"]))]


def learned(found: Drawn) -> list[Row]:
    """The whole of ahop; a refusal is a verdict too, and answers nothing."""
    spaces = found.spaces
    try:
        memory = ahop.fit(spaces.stored, pairs=(spaces.origins, spaces.copies), progress=False)
    except InvalidValueError:
        return [{"way": "ahop", "top1": 0.0, **NOTHING, "verdict": "refused"}]
    assert isinstance(memory.report, ahop.report.FitReport)
    said = memory.report.spaces
    assert said is not None
    similarity, asked = memory.similarity, torch.from_numpy(spaces.asked)
    assert isinstance(similarity, ahop.similarities.ForwardSimilarity)
    with torch.no_grad():
        scores, images = memory.scores(asked), similarity.images(asked).numpy()
        probabilities: Rows = memory.weights(asked).numpy()
    near = brought(spaces.stored, images)
    reranked = near[np.arange(ASKED), scores.numpy()[np.arange(ASKED)[:, None], near].argmax(1)]
    first = scores.argmax(1).numpy()
    shares = [float((each == found.origins).mean()) for each in (near[:, 0], reranked, first)]
    on_queries = replace(said, mapped=shares[0], reranked=shares[1], exact=shares[2])
    row = {
        "way": "ahop",
        **judged(probabilities, found.origins),
        "same_by_index": float((reranked == first).mean()),
        "verdict": said.verdict,
        "verdict_right": float(on_queries.verdict == said.verdict),
    }
    alone = {"way": "ahop, mapped, without reranking", "top1": shares[0], **NOTHING}
    return [row, alone]


def brought(stored: Rows, images: Rows) -> NDArray[np.int64]:
    """Candidates of an index of what is stored, as it was before."""
    index = faiss.IndexFlatIP(stored.shape[1])
    index.add(stored)
    rows: NDArray[np.int64] = index.search(images, CANDIDATES)[1]
    return rows


def adapted(found: Drawn, seed: int) -> list[Row]:
    rows: list[Row] = []
    for name, scored in adapters(found.spaces, seed):
        setting = calibrated(scored.held_out, found.spaces.origins[scored.rows])
        rows.append({"way": name, "verdict": None, **judged(posterior(scored.asked, *setting), found.origins)})
    hits = (found.again > found.again[np.arange(ASKED), found.origins][:, None]).sum(1) == 0
    rows.append({"way": "re-embedded, cosine", "top1": float(hits.mean()), **NOTHING})
    return rows


# Tallies of rows that tell no probability.
NOTHING: Row = {"count": [], "said": [], "hits": [], "verdict": None}


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
        if sum(row["count"]):
            row["ece_pooled"] = pooled_error([row])
    return []


EXPERIMENT = Experiment(
    name="two_spaces",
    title="Queries of another model, asked of rows that are stored already",
    seeds=3,
    cells=cells,
    run=run,
    keys=("task", "pairs", "way"),
    metrics=("top1", "top10", "log_loss", "ece", "same_by_index", "verdict_right"),
    words=("verdict",),
    tallies=("count", "said", "hits"),
    summarize=summarize,
    notes=(
        "Descriptions of Debian's packages: 20,000 stored by WordLlama (256 columns) where USE (512) and GloVe (100) "
        "ask, 3,500 where MiniLM (384) does, which leaves no 4,096 pairs. *the same document*: the query is the stored "
        "text by the other model; *short*: its short description, in pairs as in queries. 500 queries a draw, none of "
        "them in a pair; CSLS sees 400 others without labels. *centred* takes the mean of the stored rows off both "
        "sides. Temperature, floor and ridge of an adapter are those that do best on pairs held out, a quarter and at "
        "most 200; the network is of the first draw alone. *re-embedded*: everything by the model that asks, without "
        "any pair; 1 where a document asks for itself. *ece_pooled* is of the queries of all seeds together. "
        "*same_by_index*: first answers that are those of all scores, where an inner-product index of the stored rows, "
        "as it was, brings 100 candidates. *verdict*: what the report says, and *verdict_right* how often the same "
        "rule says so of the 500 queries; *refused*: the pairs were."
    ),
)
