"""How many pairs does it take? Accuracy over their number, beside the exact posterior."""

from pathlib import Path

from experiments.support.harness import Experiment, Row
from experiments.support.learning import learn, report_of
from experiments.support.measures import outcome_of
from experiments.support.pictures import curves
from experiments.support.settings import Setting

FULL = (5, 10, 20, 50, 100, 200, 500, 1000, 2048)
QUICK = (5, 20, 200)
SETTING = Setting("synthetic", 0.4)
MODELS = ("auto", "mixture", "additive", "debiased", "euclidean")
QUICK_MODELS = ("auto", "euclidean")


def cells(seeds: int, quick: bool) -> list[Row]:
    return [{"pairs": count, "seed": seed} for seed in range(seeds) for count in (QUICK if quick else FULL)]


def run(cell: Row, quick: bool) -> list[Row]:
    world = SETTING.drawn(cell["seed"], quick, cell["pairs"])
    rows = []
    for model in QUICK_MODELS if quick else MODELS:
        memory = learn(world.patterns, world.pairs, model, cell["seed"])
        outcome, chosen = outcome_of(memory, world.test), report_of(memory).chosen
        rows.append({**cell, "model": model, **outcome, **world.limit, "chosen": chosen})
    return rows


def draw(rows: list[Row], path: Path) -> None:
    curves(rows, path, over="pairs", title="Top-1 accuracy by the number of pairs; synthetic 0.4, one bias for all")


EXPERIMENT = Experiment(
    name="few_pairs",
    title="Learning curves; synthetic 0.4, constant bias signs, N = 2048, d = 64",
    seeds=5,
    cells=cells,
    run=run,
    keys=("pairs", "model"),
    metrics=("top1", "bayes", "accuracy", "bayes_blend"),
    words=("chosen",),
    draw=draw,
    notes=(
        "*top1* counts the first answer, *accuracy* as the paper does; *bayes* is the ceiling of both, *bayes_blend* "
        "what the exact posterior reads out, a reference. 1000 test queries a seed. Pairs are drawn anew for each "
        "number of them. The quick form has three numbers and two models."
    ),
)
