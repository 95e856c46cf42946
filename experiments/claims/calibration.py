"""Do the probabilities mean what they say? What recall said about its best answer, against how often that was right."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

import ahop
from ahop.variants import Variant
from experiments.support.corruptions import BLOCK, BrokenVariant
from experiments.support.data import digits_table
from experiments.support.harness import Experiment, Row
from experiments.support.learning import learn, report_of
from experiments.support.measures import calibration_error, reliability
from experiments.support.pictures import diagonals
from experiments.support.settings import Setting, seed_of_test


@dataclass(frozen=True)
class Case:
    """What is stored, what happens to it, how many pairs and test queries; the first two for a given seed."""

    stored: Callable[[int], Tensor]
    variant: Callable[[int], Variant]
    pairs: int
    queries: int


# A calibration error counts chance as error: of 1000 queries at .5, even the exact posterior shows one of .025.
QUERIES = 5000


def _case(setting: Setting) -> Case:
    queries = setting.queries(quick=False) if setting.dataset == "mnist" else QUERIES
    return Case(setting.patterns, setting.variant, setting.pairs, queries)


def _broken_digits(seed: int) -> Variant:
    return BrokenVariant(digits_table(), missing=0.0, garbage=0.3, bias=0.4, seed=seed)


MIXED = [Setting("synthetic", 0.4), Setting("synthetic", 0.5), Setting("mnist", 0.6), Setting("mnist", 0.7)]
CASES = {setting.name: _case(setting) for setting in MIXED}
CASES["digits, garbage 30% + bias, 200 pairs"] = Case(lambda seed: digits_table(), _broken_digits, 200, QUERIES)
QUICK = [MIXED[0].name, "digits, garbage 30% + bias, 200 pairs"]
MODELS = {"auto": "auto", "softmax of euclidean": "euclidean"}


def cells(seeds: int, quick: bool) -> list[Row]:
    names = QUICK if quick else list(CASES)
    return [{"setting": name, "seed": seed} for seed in range(seeds) for name in names]


def run(cell: Row, quick: bool) -> list[Row]:
    case, seed = CASES[cell["setting"]], cell["seed"]
    patterns, variant = case.stored(seed), case.variant(seed)
    pairs = variant.sample(patterns, case.pairs, seed)
    test = variant.sample(patterns, case.queries // 5 if quick else case.queries, seed_of_test(seed))
    rows = []
    for model, similarity in MODELS.items():
        memory = learn(patterns, pairs, similarity, seed)
        answer = memory.recall(test.queries)
        row = _row(answer.posterior[:, 0], answer.indices[:, 0] == test.origins)
        rows.append({**cell, "model": model, **row, "chosen": report_of(memory).chosen})
    best = _posterior(variant, patterns, test.queries).max(-1)
    exact = _row(best.values, best.indices == test.origins)
    return [*rows, {**cell, "model": "exact posterior", **exact, "chosen": None}]


def _posterior(variant: Variant, patterns: Tensor, queries: Tensor) -> Tensor:
    blocks = [queries[start : start + BLOCK] for start in range(0, len(queries), BLOCK)]
    return torch.cat([ahop.variants.log_posterior(variant, patterns, block).exp() for block in blocks])


def _row(confidence: Tensor, right: Tensor) -> Row:
    count, said, hits = reliability(confidence, right)
    return {
        "ece": calibration_error(count, said, hits),
        "top1": float(right.double().mean()),
        "confidence": float(confidence.double().mean()),
        "count": count,
        "said": said,
        "hits": hits,
    }


def draw(rows: list[Row], path: Path) -> None:
    diagonals(rows, path, panel="setting", title="How often the best answer was right, by what was said")


EXPERIMENT = Experiment(
    name="calibration",
    title="Expected calibration error of the best answer's probability, 15 bins",
    seeds=3,
    cells=cells,
    run=run,
    keys=("setting", "model"),
    metrics=("ece", "top1", "confidence"),
    words=("chosen",),
    tallies=("count", "said", "hits"),
    draw=draw,
    notes=(
        "5000 fresh queries a seed, on MNIST 400. `softmax of euclidean` has its temperature fitted to the same pairs. "
        "`exact posterior` is calibrated by definition: what it shows is the error that this many queries have by "
        "chance. The quick form has two settings."
    ),
)
