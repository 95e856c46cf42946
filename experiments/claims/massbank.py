"""A spectrum at another collision energy: which compound of the library is it, or none?

A library of 728 compounds at one energy. What is learned, is learned from 200 pairs of other compounds.
"""

from collections.abc import Callable

import torch
from torch import Tensor

import ahop
from experiments.support.harness import Experiment, Row
from experiments.support.learning import report_of
from experiments.support.massbank_peers import (
    entropy_similarity,
    explained_intensity,
    matched_peaks,
    rare_cosine,
    root_cosine,
    stein_scott,
)
from experiments.support.massbank_protocol import MassDraw, binned, drawn
from experiments.support.measures import auroc, hit_rate, mean_of, milliseconds, pooled_error, tallied

BASELINES, BINS, AUTO = "baselines", "bins", "auto"
ENTROPY, COSINE = "spectral entropy", "cosine of roots"
METRICS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    ENTROPY: entropy_similarity,
    COSINE: root_cosine,
    "Stein and Scott": stein_scott,
    "cosine, rare peaks count more": rare_cosine,
    "peaks in common": matched_peaks,
    "explained intensity": explained_intensity,
}
GENTLE = 75.0
TALLIES = ("count", "said", "hits")
SHOWN = ("top1", "top1_up_to_75", "unknown_auroc", "ms_per_query")


def cells(seeds: int, quick: bool) -> list[Row]:
    methods = [BASELINES, *([] if quick else [BINS]), AUTO]
    return [{"method": method, "seed": seed} for method in methods for seed in range(seeds)]


def run(cell: Row, quick: bool) -> list[Row]:
    draw = drawn(cell["seed"], queries=300 if quick else 600)
    if cell["method"] == BASELINES:
        return [{**cell, "model": name, **_compared(metric, draw)} for name, metric in METRICS.items()]
    if cell["method"] == BINS:
        pairs = ahop.Pairs(draw.pairs.origins, binned(draw.pairs.queries))
        memory = ahop.fit(binned(draw.patterns), pairs=pairs, similarity="additive", seed=cell["seed"], progress=False)
        return [{**cell, "model": "additive, 1 Da bins", **_answered(memory, binned(draw.test.queries), draw)}]
    return [{**cell, "model": AUTO, **_answered(_auto(draw, cell["seed"]), draw.test.queries, draw)}]


def _auto(draw: MassDraw, seed: int) -> ahop.AssociativeMemory:
    """The metrics of chemists, made a probability: peaks at masses of their own are no table."""
    brought = list(METRICS.values())
    return ahop.fit(draw.patterns, pairs=draw.pairs, candidates=brought, seed=seed, progress=False)


def _compared(metric: Callable[[Tensor, Tensor], Tensor], draw: MassDraw) -> Row:
    scores = metric(draw.patterns, draw.test.queries)
    left = torch.ones(len(draw.patterns), dtype=torch.bool)
    left[draw.removed] = False
    doubt = -scores[:, left].amax(1)
    return {
        **_top1(scores.argmax(1), draw),
        "unknown_auroc": auroc(doubt[draw.unknown], doubt[~draw.unknown]),
        "ms_per_query": milliseconds(lambda: metric(draw.patterns, draw.test.queries)) / len(draw.test),
        "chosen": None,
    } | {tally: [] for tally in TALLIES}


def _answered(memory: ahop.AssociativeMemory, queries: Tensor, draw: MassDraw) -> Row:
    answer = memory.recall(queries)
    said, found = answer.posterior[:, 0], answer.indices[:, 0]
    without = memory.copy()
    without.remove(draw.removed)
    doubt = without.recall(queries).unknown
    return {
        **_top1(found, draw),
        "unknown_auroc": None if doubt is None else auroc(doubt[draw.unknown], doubt[~draw.unknown]),
        "ms_per_query": milliseconds(lambda: memory.recall(queries)) / len(queries),
        "chosen": report_of(memory).chosen,
        **tallied(said, found == draw.test.origins),
    }


def _top1(found: Tensor, draw: MassDraw) -> Row:
    gentle = draw.energies <= GENTLE
    return {
        "top1": hit_rate(found, draw.test.origins),
        "top1_up_to_75": hit_rate(found[gentle], draw.test.origins[gentle]),
    }


def headline(rows: list[Row]) -> Row:
    found = {row["model"]: row for row in rows}
    ours, entropy = found.get(AUTO, {}), found.get(ENTROPY, {})
    return {
        "top1": ours.get("top1"),
        "entropy_top1": entropy.get("top1"),
        "ece": pooled_error([ours]) if ours else None,
        "unknown_auroc": ours.get("unknown_auroc"),
        "entropy_unknown_auroc": entropy.get("unknown_auroc"),
        "ms_per_query": mean_of([ours], "ms_per_query"),
    }


EXPERIMENT = Experiment(
    name="massbank",
    title="Which compound has this mass spectrum, taken at another collision energy? MassBank Eawag, 728 compounds",
    seeds=5,
    cells=cells,
    run=run,
    keys=("model",),
    metrics=SHOWN,
    words=("chosen",),
    tallies=TALLIES,
    headline=headline,
    notes=(
        "The library has one spectrum of each compound at energy 45, the queries are at 15 to 180. Compounds of the "
        "200 pairs and of the 600 test queries are disjoint, all are in the library. Peaks below 1 % of the largest "
        "are left out, those closer than 10 mDa merged, matches are within 5 mDa, and the mass of the precursor is not "
        "used. `top1_up_to_75`: of the test queries at energies up to 75; beyond, most molecules are shattered. "
        "`unknown_auroc`: the compounds of half of the test queries are removed from the library; the metrics of "
        "chemists say so by their best score. `ece`: 15 bins of equal width, the queries of all draws. `ms_per_query`: "
        "all test queries in one batch, one thread, best of three. The entropy similarity is that of ms_entropy, with "
        "its weights, computed for many spectra at once. The quick form has 300 queries and no bins."
    ),
)
