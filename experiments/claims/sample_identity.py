"""Whose sample is it? Genotypes that few reads show, beside those of everybody who is stored; and swapped samples."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import log
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

import ahop
from experiments.support.genotype_reads import (
    Reader,
    Rows,
    concordance,
    identity_by_state,
    log_likelihood_ratios,
    people,
    relatedness,
)
from experiments.support.harness import Experiment, Row
from experiments.support.measures import auroc, calibration_error, hit_rate, reliability

STORED, STRANGERS = 800, 200
QUERIES = {"full": 600, "quick": 200}
PAIRS, LOG = 60, 400
PEERS = {"somalier": relatedness, "concordance": concordance, "IBS": identity_by_state}
# Of samples whose labels were swapped among each other, and the share that is expected of any two tables.
SWAPPED, EXPECTED_SWAPS = 0.02, 0.02


@dataclass(frozen=True)
class Task:
    """What is stored, and what is asked.

    Attributes:
        pairs: samples whose people are known.
        log: samples that nobody has labeled.
        strangers: samples of people who are not stored.
    """

    stored: Rows
    queries: Rows
    origins: NDArray[np.int64]
    strangers: Rows
    pairs: tuple[NDArray[np.int64], Rows]
    log: Rows

    @classmethod
    def drawn(cls, seed: int, count: int) -> "Task":
        generator = np.random.default_rng(seed)
        reader, order = Reader.drawn(generator), generator.permutation(len(people()))
        stored, others = people()[order[:STORED]], people()[order[STORED:][:STRANGERS]]
        origins, known = generator.permutation(STORED)[:count], generator.permutation(STORED)[:PAIRS]
        of_log = generator.integers(0, STORED, LOG)
        queries, strangers = reader.reads(stored[origins], generator), reader.reads(others, generator)
        pairs = known, reader.reads(stored[known], generator)
        return cls(stored, queries, origins, strangers, pairs, reader.reads(stored[of_log], generator))


def cells(seeds: int, quick: bool) -> list[Row]:
    return [{"task": task, "seed": seed} for seed in range(seeds) for task in ("whose is it", "swapped")]


def run(cell: Row, quick: bool) -> list[Row]:
    rows = _whose(cell["seed"], quick) if cell["task"] == "whose is it" else _swapped(cell["seed"], quick)
    return [{**cell, **row} for row in rows]


def _whose(seed: int, quick: bool) -> list[Row]:
    task = Task.drawn(seed, QUERIES["quick" if quick else "full"])
    exact = [log_likelihood_ratios(task.stored, rows) for rows in (task.queries, task.strangers)]
    ceiling = float((exact[0].argmax(1) == task.origins).mean())
    sites = float(np.median((~np.isnan(task.queries)).sum(1)))
    rows = [_of_scores("true table", exact[0], exact[1], task)]
    for name, measure in PEERS.items():
        known, unknown = (_scores(measure, task.stored, each) for each in (task.queries, task.strangers))
        rows.append(_of_scores(name, known, unknown, task))
    fits: dict[str, Callable[[], ahop.AssociativeMemory]] = {
        "ahop, 60 pairs": partial(_fit, task.stored, pairs=task.pairs),
        "ahop, 400 queries": partial(_fit, task.stored, queries=task.log),
        "ahop, 60 pairs, as numbers": partial(ahop.fit, task.stored, pairs=task.pairs, progress=False),
    }
    rows += [_of_memory(name, fit, task) for name, fit in fits.items()]
    return [{**row, "ceiling": ceiling, "of_ceiling": row["top1"] / ceiling, "sites": sites} for row in rows]


def _fit(stored: Rows, **given: Any) -> ahop.AssociativeMemory:
    return ahop.fit(stored, categorical=True, progress=False, **given)


def _scores(measure: Callable[[Rows, Rows], NDArray[np.float64]], stored: Rows, queries: Rows) -> NDArray[np.float64]:
    return np.stack([measure(stored, query[None]) for query in queries])


def _of_scores(name: str, known: NDArray[np.float64], unknown: NDArray[np.float64], task: Task) -> Row:
    best = [torch.from_numpy(each.max(1)) for each in (known, unknown)]
    return {
        "method": name,
        "top1": hit_rate(torch.from_numpy(known.argmax(1)), torch.from_numpy(task.origins)),
        "auroc": auroc(-best[1], -best[0]),
    }


def _of_memory(name: str, fit: Callable[[], ahop.AssociativeMemory], task: Task) -> Row:
    started = time.process_time()
    memory = fit()
    seconds = time.process_time() - started
    answer, others = (memory.recall(torch.from_numpy(rows)) for rows in (task.queries, task.strangers))
    is_right = answer.indices[:, 0] == torch.from_numpy(task.origins)
    assert answer.unknown is not None
    assert others.unknown is not None
    return {
        "method": name,
        "top1": float(is_right.double().mean()),
        "said": float(answer.posterior[:, 0].mean()),
        "ece": calibration_error(*reliability(answer.posterior[:, 0], is_right)),
        "auroc": auroc(others.unknown, answer.unknown),
        "fit_cpu_seconds": seconds,
    }


def _swapped(seed: int, quick: bool) -> list[Row]:
    """Two samples of each person, few of them under the name of another; nothing else is known."""
    generator = np.random.default_rng(1000 + seed)
    stored, reader = people(), Reader.drawn(generator)
    count = len(stored)
    swapped = generator.permutation(count)[: round(SWAPPED * count)]
    named = np.arange(count)
    named[swapped] = np.roll(swapped, 1)
    samples = reader.reads(stored, generator)  # row i is of person i, and is called named[i]
    rows = []
    scores = {"true table": log_likelihood_ratios(stored, samples)}
    scores |= {} if quick else {name: _scores(measure, stored, samples) for name, measure in PEERS.items()}
    for name, found in scores.items():
        rows.append({"method": f"{name}, best of all", **_told(found.argmax(1) != named, swapped)})
    own = scores["true table"]
    odds = own[np.arange(count), named] - _log_mean_of_others(own, named)
    rows.append({"method": "true table, odds of its name", **_told(odds < -_prior_odds(), swapped)})
    started = time.process_time()
    memory = _fit(stored, queries=samples, labels=np.arange(count))
    links = ahop.link(memory, torch.from_numpy(samples), labels=named, progress=False)
    seconds = time.process_time() - started
    rows.append({"method": "ahop link, best of all", **_told(links.linked != named, swapped)})
    assert links.misnamed is not None
    is_told = np.isin(named, links.misnamed.rows.astype(np.int64))
    rows.append({"method": "ahop link, wrong names", "fit_cpu_seconds": seconds, **_told(is_told, swapped)})
    return [{**row, "sites": float(np.median((~np.isnan(samples)).sum(1)))} for row in rows]


def _prior_odds() -> float:
    """Of a name being right, before a sample is looked at, in nats."""
    return log(1 - EXPECTED_SWAPS) - log(EXPECTED_SWAPS)


def _log_mean_of_others(scores: NDArray[np.float64], named: NDArray[np.int64]) -> NDArray[np.float64]:
    others = scores.copy()
    others[np.arange(len(others)), named] = -np.inf
    top = others.max(1)
    found: NDArray[np.float64] = top + np.log(np.exp(others - top[:, None]).sum(1)) - log(len(others) - 1)
    return found


def _told(flagged: NDArray[np.bool_], swapped: NDArray[np.int64]) -> Row:
    is_swapped = np.zeros(len(flagged), bool)
    is_swapped[swapped] = True
    return {
        "swaps": len(swapped),
        "swaps_found": int((flagged & is_swapped).sum()),
        "swaps_false": int((flagged & ~is_swapped).sum()),
    }


EXPERIMENT = Experiment(
    name="sample_identity",
    title="Whose sample is it? Genotypes from few reads",
    seeds=5,
    cells=cells,
    run=run,
    keys=("task", "method"),
    metrics=(
        "top1",
        "ceiling",
        "of_ceiling",
        "said",
        "ece",
        "auroc",
        "swaps",
        "swaps_found",
        "swaps_false",
        "sites",
        "fit_cpu_seconds",
    ),
    notes=(
        "Real genotypes of 1,000 people at 150 sites; their samples are simulated: a site is read as often as genes "
        "are expressed (*sites* is the median of those that are read), four in ten heterozygotes show one allele, 2 % "
        "of the entries are wrong. *whose is it*: 800 people are stored, 600 of their samples are asked, and 200 of "
        "people who are not stored (*auroc*: how often the chance of *none* is higher for these). *ceiling* is by the "
        "true table of errors and the frequencies of the sites. *swapped*: 1,000 people, 1,000 samples, 20 of them "
        "named after another of these 20; found and false are what is told of by the best answer not being the "
        "name, or by the odds of the name against those of a random other person being below 2 in 98. The metrics of "
        "practitioners: relatedness as somalier computes it, concordance, and identity by state."
    ),
)
