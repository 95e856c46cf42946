"""Probabilities in front of a search that somebody already runs: short descriptions ask for long ones.

Four fifths of the packages are stored; short descriptions of the others come from no stored one. Labels are clicks as
they come: the right row, or none. A log of 1000 other queries has no labels.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import binomtest
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression
from torch import Tensor

import ahop
from experiments.datasets import Texts, load_debian_text
from experiments.support.harness import Experiment, Row
from experiments.support.measures import auroc, calibration_error, pooled_error, reliability, tallied

MODELS = {"MiniLM": "minilm384", "WordLlama": "minilm_wl256"}
STORED_SHARE, LOG, CLICKS = 0.8, 1000, (100, 500)
# Halves of the other queries: on one a policy is found, on the other judged; so many times.
DRAWS = 10
PRECISION, NEW_CLICKS = 0.95, 50
# Queries that CSLS takes the mean similarity of a stored row to.
NEIGHBORS = 10
# Tallies of rows that tell no probability.
NOTHING: Row = {"count": [], "said": [], "hits": []}

Numbers: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True)
class Split:
    """Queries by what they are for, and the stored row that each asks for; -1 where there is none."""

    stored: NDArray[np.int64]
    origins: NDArray[np.int64]
    fit: NDArray[np.int64]
    log: NDArray[np.int64]
    test: NDArray[np.int64]

    @classmethod
    def drawn(cls, count: int, seed: int) -> "Split":
        generator = np.random.default_rng(seed)
        stored = generator.permutation(count)[: int(STORED_SHARE * count)]
        origins = np.full(count, -1)
        origins[stored] = np.arange(len(stored))
        fit, log, test = np.split(generator.permutation(count), np.cumsum([max(CLICKS), LOG]))
        return cls(stored, origins, fit, log, test)

    def pairs(self, rows: NDArray[np.int64], short: NDArray[np.float32]) -> tuple[list[int | None], Any]:
        return [int(each) if each >= 0 else None for each in self.origins[rows]], short[rows]


@cache
def texts(model: str) -> Texts:
    return load_debian_text(MODELS[model])


def short_of(model: str) -> NDArray[np.float32]:
    found = texts(model).short
    assert found is not None
    return found


def search_of(long: NDArray[np.float32]) -> Callable[[Any, int], tuple[Any, Any]]:
    """The exact search by cosine."""
    rows = torch.from_numpy(long)

    def search(queries: Any, k: int) -> tuple[Any, Any]:
        scores, ids = (torch.from_numpy(queries) @ rows.mT).topk(k, dim=-1)
        return ids, scores

    return search


def cells(seeds: int, quick: bool) -> list[Row]:
    return [{"model": model, "seed": seed} for seed in range(seeds) for model in MODELS]


def run(cell: Row, quick: bool) -> list[Row]:
    model, seed = cell["model"], cell["seed"]
    short, long = short_of(model), texts(model).long
    split = Split.drawn(len(long), seed)
    search = search_of(long[split.stored])
    scores = short @ long[split.stored].T
    rows: list[Row] = []
    for clicks in CLICKS:
        fit = split.fit[:clicks]
        for name, (top, sure, unknown) in baselines(scores, split, fit).items():
            rows.append({**cell, "clicks": clicks, "way": name, **judged(top, sure, unknown, split)})
        pairs, log = split.pairs(fit, short), short[split.log]
        with_none = [place for place, origin in enumerate(split.origins[fit]) if origin >= 0]
        alone = ([pairs[0][place] for place in with_none], pairs[1][with_none])
        ways = {
            "attach": ahop.attach(search, pairs=pairs),
            "attach, with a log": ahop.attach(search, pairs=pairs, queries=log),
            "attach, with a log, no label none": ahop.attach(search, pairs=alone, queries=log),
        }
        for name, attached in ways.items():
            answer = attached.recall(short[split.test])
            found = (answer.indices[:, 0], np.asarray(answer.confidence), np.asarray(answer.unknown))
            rows.append({**cell, "clicks": clicks, "way": name, **judged(*found, split)})
            if clicks == max(CLICKS) and name == "attach, with a log":
                rows += policies(cell, answer, scores, split)
    unlabeled = ahop.attach(search, queries=short[split.log])
    answer = unlabeled.recall(short[split.test])
    found = (answer.indices[:, 0], np.asarray(answer.confidence), np.asarray(answer.unknown))
    rows.append({**cell, "clicks": 0, "way": "attach, a log alone", **judged(*found, split)})
    return [*rows, *changed(cell)]


def baselines(scores: Any, split: Split, fit: NDArray[np.int64]) -> dict[str, tuple[Any, Numbers, Numbers]]:
    """First answers, how sure they are, and how likely each test query is a stranger."""
    best, top = scores.max(-1), scores.argmax(-1)
    right = top == split.origins
    bank = np.concatenate([fit, split.log])
    near = np.partition(scores[bank], -NEIGHBORS, axis=0)[-NEIGHBORS:].mean(0)
    ours = np.partition(scores, -NEIGHBORS, axis=1)[:, -NEIGHBORS:].mean(1)
    local = 2 * scores - near - ours[:, None]
    found: dict[str, tuple[Any, Numbers, Numbers]] = {}
    for name, values in (("cosine", best), ("CSLS", local.max(-1))):
        first = top if name == "cosine" else local.argmax(-1)
        hits = right if name == "cosine" else first == split.origins
        logistic = LogisticRegression(C=1e4).fit(values[fit, None], hits[fit])
        sure = logistic.predict_proba(values[split.test, None])[:, 1]
        found[f"{name}, temperature"] = first[split.test], sure, -values[split.test]
    isotonic = IsotonicRegression(y_min=0, y_max=1, out_of_bounds="clip").fit(best[fit], right[fit])
    sure = isotonic.predict(best[split.test])
    found["cosine, isotonic"] = top[split.test], sure, 1 - sure
    shifted = scores - scores.max(-1, keepdims=True)
    inside = fit[split.origins[fit] >= 0]
    betas = np.geomspace(2, 200, 40)
    losses = [
        np.log(np.exp(beta * shifted[inside]).sum(-1)).mean() - beta * shifted[inside, split.origins[inside]].mean()
        for beta in betas
    ]
    beta = betas[int(np.argmin(losses))]
    sure = 1 / np.exp(beta * shifted[split.test]).sum(-1)
    found["cosine, softmax"] = top[split.test], sure, 1 - sure
    return found


def judged(top: Any, sure: Numbers, unknown: Numbers, split: Split) -> Row:
    origins = split.origins[split.test]
    right, stored = torch.from_numpy(np.asarray(top) == origins), origins >= 0
    confidence, strange = torch.from_numpy(np.asarray(sure).astype(np.float64)), torch.from_numpy(np.asarray(unknown))
    return {
        "top1": float(right[stored].double().mean()),
        "auroc": auroc(strange[~stored], strange[stored]),
        "ece": calibration_error(*reliability(confidence, right)),
        "ece_chance": _chance(confidence),
        "confidence": float(confidence.mean()),
        "right": float(right.double().mean()),
        **tallied(confidence, right),
    }


def _chance(confidence: Tensor) -> float:
    """The error that so many queries show though every probability is what it says."""
    drawn = torch.rand(len(confidence), generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    return calibration_error(*reliability(confidence, drawn < confidence))


@dataclass(frozen=True)
class Answered:
    """Answers that were given before, for those who ask by number: a policy is found on whatever recalls."""

    answers: ahop.Recall[Any]

    def recall(
        self, queries: Any, k: int = 1, *, where: Any = None, groups: Sequence[object] | None = None, same: Any = None
    ) -> ahop.Recall[Any]:
        rows, found = np.asarray(queries)[:, 0].astype(int), self.answers
        unknown = None if found.unknown is None else found.unknown[rows]
        return ahop.Recall(found.indices[rows], found.posterior[rows], found.patterns[rows], unknown)


def answered(scores: Any) -> Answered:
    """The search as it is: its best score takes the place of a probability."""
    top = scores.argmax(-1)[:, None]
    return Answered(ahop.Recall(top, scores.max(-1)[:, None], np.empty((len(top), 1, 0))))


def policies(cell: Row, answer: Any, scores: Any, split: Split) -> list[Row]:
    """A precision that pairs held out promise, and what it keeps on others; a threshold that is merely tuned."""
    memories = {"attach": Answered(answer), "the top score": answered(scores[split.test])}
    origins, rows = split.origins[split.test], list[Row]()
    for draw in range(DRAWS):
        order = np.random.default_rng(1000 * cell["seed"] + draw).permutation(len(origins))
        held_out, others = np.array_split(order, 2)
        names = [int(each) if each >= 0 else None for each in origins[held_out]]
        for name, memory in memories.items():
            kept: Row = {"refused": 1.0}
            with suppress(ValueError):
                policy = ahop.policy(memory, (names, held_out[:, None]), precision=PRECISION)
                kept = {"refused": 0.0, **realized(memory, policy, others, origins)}
            rows.append({"way": f"policy on {name}", **kept})
        tuned = tuned_threshold(memories["the top score"], held_out, origins)
        rows.append(
            {"way": "tuned threshold on the top score", **realized(memories["the top score"], tuned, others, origins)}
        )
    return [{**cell, "clicks": max(CLICKS), **row, **NOTHING} for row in rows]


def tuned_threshold(memory: Answered, held_out: Any, origins: Any) -> float:
    """The lowest one from which on the accepted of these answers are as right as is asked for."""
    answers = memory.recall(held_out[:, None])
    sure, right = answers.confidence, answers.indices[:, 0] == origins[held_out]
    order = np.argsort(-sure)
    good = np.flatnonzero(np.cumsum(right[order]) / np.arange(1, len(order) + 1) >= PRECISION)
    return float(sure[order][good[-1]]) if len(good) else float("inf")


def realized(memory: Answered, accept: Any, asked: Any, origins: Any) -> Row:
    """Precision and coverage of a policy, or of a threshold."""
    answers = memory.recall(asked[:, None])
    is_threshold = isinstance(accept, float)
    accepted = answers.confidence >= accept if is_threshold else answers.decide(accept).actions == "accept"
    hits = (answers.indices[:, 0] == origins[asked])[accepted]
    upper = binomtest(int(hits.sum()), len(hits)).proportion_ci(0.95, "exact").high if len(hits) else 1.0
    return {
        "precision": float(hits.mean()) if len(hits) else None,
        "coverage": float(accepted.mean()),
        "kept": float(upper >= PRECISION),
    }


def changed(cell: Row) -> list[Row]:
    """The other model is replaced by this one: a threshold of before, and 50 new clicks."""
    after, before = cell["model"], next(each for each in MODELS if each != cell["model"])
    split = Split.drawn(len(texts(after).long), cell["seed"])
    new = short_of(after)
    origins, everything = split.origins[split.test], np.arange(len(split.test))
    held_out, others = np.array_split(everything, 2)
    models = {name: answered(short_of(name)[split.test] @ texts(name).long[split.stored].T) for name in (before, after)}
    threshold = tuned_threshold(models[before], held_out, origins)
    rows: list[Row] = [
        {"way": f"threshold tuned before, {when}", **realized(models[name], threshold, others, origins), **NOTHING}
        for name, when in ((before, "before"), (after, "after"))
    ]
    search = search_of(texts(after).long[split.stored])
    pairs = split.pairs(split.fit[:NEW_CLICKS], new)
    attached = ahop.attach(search, pairs=pairs, queries=new[split.log])
    answer = attached.recall(new[split.test])
    by_word = ahop.policy(attached, pairs, costs={"wrong": 20, "ask": 1})
    kept = realized(Answered(answer), by_word, others, origins)
    found = (answer.indices[:, 0], np.asarray(answer.confidence), np.asarray(answer.unknown))
    rows.append({"way": "attach with 50 new clicks, accepted from .95 on", **kept, **judged(*found, split)})
    return [{**cell, "model": f"{before} to {after}", "clicks": NEW_CLICKS, **row} for row in rows]


def summarize(rows: list[Row]) -> list[Row]:
    """The calibration error of the queries of all splits together, beside the mean of single ones."""
    for row in rows:
        row["ece_pooled"] = pooled_error([row])
    return []


EXPERIMENT = Experiment(
    name="attach",
    title="A probability, none of these, and a policy in front of a search by cosine; one query in five is a stranger",
    seeds=10,
    cells=cells,
    run=run,
    keys=("model", "clicks", "way"),
    metrics=(
        *("top1", "auroc", "ece", "ece_chance", "confidence", "right", "precision", "coverage", "kept", "refused"),
    ),
    tallies=("count", "said", "hits"),
    summarize=summarize,
    notes=(
        "3,500 packages of Debian, 2,800 of them stored; short descriptions ask for long ones, and those of the other "
        "700 are strangers. *clicks* are labeled queries as they come, one in five with none; the log are 1,000 others "
        "without labels. *top1* is of queries with a stored row, *auroc* tells strangers from them, *ece* is of the "
        "confidence in the first answer on 2,000 queries (*ece_chance*: what so many show if every probability is "
        "right; *ece_pooled*: of all seeds together). *temperature* is a logistic regression on the top score. CSLS "
        "sees all vectors, and all stored ones for every query. A policy asks for a precision of .95 on half of these "
        "queries, ten times; *kept* is the share of policies whose precision on the other half has .95 within or below "
        "its interval of 95 %. A tuned threshold is the lowest that reaches .95 there, and promises nothing. "
        "*WordLlama to MiniLM* and back: a threshold tuned on the scores of the old model, on those of both; then 50 "
        "new clicks, and answers are accepted from a confidence of .95 on."
    ),
)
