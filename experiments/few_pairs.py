"""How many pairs does it take? Accuracy over their number, beside the exact posterior."""

from pathlib import Path

import ahop
from experiments.harness import Experiment, Row
from experiments.learning import learn, report_of
from experiments.measures import accuracy
from experiments.pictures import curves
from experiments.settings import Setting, seed_of_test

FULL = (5, 10, 20, 50, 100, 200, 500, 1000, 2048)
QUICK = (5, 20, 100, 500)
SETTING = Setting("synthetic", 0.4)
MODELS = ("auto", "mixture", "additive", "debiased", "euclidean")


def cells(seeds: int, quick: bool) -> list[Row]:
    return [{"pairs": count, "seed": seed} for seed in range(seeds) for count in (QUICK if quick else FULL)]


def run(cell: Row, quick: bool) -> list[Row]:
    seed, count = cell["seed"], SETTING.queries(quick)
    patterns, variant = SETTING.patterns(seed), SETTING.variant(seed)
    pairs = variant.sample(patterns, cell["pairs"], seed)
    test = variant.sample(patterns, count, seed_of_test(seed))
    ceiling = ahop.bayes_accuracy(patterns, variant, count, seed_of_test(seed))
    rows = []
    for model in MODELS:
        memory = learn(patterns, pairs, model, seed)
        found, chosen = accuracy(memory, test), report_of(memory).chosen
        rows.append({**cell, "model": model, "accuracy": found, "bayes": ceiling, "chosen": chosen})
    return rows


def draw(rows: list[Row], path: Path) -> None:
    curves(rows, path, over="pairs", title="Top-1 accuracy by the number of pairs; synthetic 0.4, one bias for all")


EXPERIMENT = Experiment(
    name="few_pairs",
    title="Learning curves; synthetic 0.4, constant bias signs, N = 2048, d = 64",
    seeds=3,
    cells=cells,
    run=run,
    keys=("pairs", "model"),
    metrics=("accuracy", "bayes"),
    words=("chosen",),
    draw=draw,
    notes="1000 test queries a seed. Pairs are drawn anew for each number of them. The quick form has four numbers.",
)
