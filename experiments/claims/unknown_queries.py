"""Does a memory know when a query comes from none of its patterns?

It is told nothing about such queries when it is fitted. The oracle knows the true corruption and the distribution that
all patterns come from, and compares the likelihood of the stored ones with that of any.
"""

from math import log

import torch
from torch import Tensor

import ahop
from experiments.support.data import mnist_patterns, uniform_patterns
from experiments.support.harness import Experiment, Row
from experiments.support.learning import learn, report_of
from experiments.support.measures import auroc
from experiments.support.settings import COUNT, Setting, seed_of_test

QUERIES = 400
FULL = [Setting("synthetic", 0.4), Setting("mnist", 0.6)]
SETTINGS = {setting.name: setting for setting in FULL}


def cells(seeds: int, quick: bool) -> list[Row]:
    return [
        {"setting": setting.name, "seed": seed} for seed in range(seeds) for setting in (FULL[:1] if quick else FULL)
    ]


def run(cell: Row, quick: bool) -> list[Row]:
    setting, seed = SETTINGS[cell["setting"]], cell["seed"]
    patterns, variant = setting.patterns(seed), setting.variant(seed)
    memory = learn(patterns, variant.sample(patterns, setting.pairs, seed), "auto", seed)
    known = variant.sample(patterns, QUERIES, seed_of_test(seed)).queries
    unknown = variant.sample(_others(setting, seed), QUERIES, 20_000 + seed).queries
    found = {
        "auto": auroc(_doubt(memory, unknown), _doubt(memory, known)),
        "top score": auroc(-_top_score(memory, unknown), -_top_score(memory, known)),
    }
    if setting.dataset == "synthetic":
        found["oracle"] = auroc(-_ratio(variant, patterns, unknown), -_ratio(variant, patterns, known))
    chosen = report_of(memory).chosen
    return [{**cell, "model": model, "auroc": value, "chosen": chosen} for model, value in found.items()]


def _others(setting: Setting, seed: int) -> Tensor:
    """Patterns of the same kind that are not stored."""
    if setting.dataset == "mnist":
        return mnist_patterns(COUNT + QUERIES, seed)[COUNT:]
    return uniform_patterns(QUERIES, 64, 30_000 + seed)


def _doubt(memory: ahop.AssociativeMemory, queries: Tensor) -> Tensor:
    doubt = memory.recall(queries).unknown
    assert doubt is not None
    return doubt


def _top_score(memory: ahop.AssociativeMemory, queries: Tensor) -> Tensor:
    return memory.scores(queries).detach().amax(-1)


def _ratio(variant: ahop.MixedVariant, patterns: Tensor, queries: Tensor) -> Tensor:
    """Log-likelihood of one of the stored patterns, over that of a fresh pattern uniform in [-1, 1].

    For the fresh one, each dimension is redrawn at the rate of the mask, not so many exactly.
    """
    stored = torch.logsumexp(variant.log_likelihood(patterns, queries).double(), -1) - log(len(patterns))
    moved = queries.double() - variant.constant_bias(queries.shape[1])
    # A kept value: uniform plus normal noise, integrated.
    kept = 0.5 * (torch.special.ndtr((moved + 1) / variant.std) - torch.special.ndtr((moved - 1) / variant.std))
    redrawn = 0.5 * (moved.abs() <= 1 + 1e-5)
    rate = variant.redrawn(queries.shape[1]) / queries.shape[1]
    return stored - torch.log((1 - rate) * kept + rate * redrawn).sum(-1)


EXPERIMENT = Experiment(
    name="unknown_queries",
    title="Telling queries of stored patterns from queries of others; N = 2048, 512 pairs",
    seeds=3,
    cells=cells,
    run=run,
    keys=("setting", "model"),
    metrics=("auroc",),
    words=("chosen",),
    notes=(
        "Area under the ROC curve; 400 queries of stored patterns and 400 of others of the same kind (fresh uniform "
        "ones; other MNIST images), all corrupted alike. `top score` is the best score of the same memory, `oracle` "
        "the exact likelihood ratio. The quick form leaves MNIST out."
    ),
)
