"""Rows with gaps, shifts and garbage: a drop-in for nearest neighbors when data is broken.

Five settings on three tables, with 50 pairs: scikit-learn's ways, ours by name, and `auto`, which must find the right
one by itself. The exact posterior says how much there is to gain.
"""

from pathlib import Path

from torch import Tensor

import ahop
from experiments.support.corruptions import BrokenVariant
from experiments.support.data import breast_cancer_table, digits_table, musk_table
from experiments.support.harness import Experiment, Row
from experiments.support.learning import learn, report_of, trials_of
from experiments.support.measures import ceiling, hit_rate, outcome_of
from experiments.support.peers import nearest_by_imputing, nearest_by_nan_euclidean, nearest_without_shift
from experiments.support.pictures import dots
from experiments.support.settings import seed_of_test

PAIRS, QUERIES = 50, 300
TABLES = {"digits": digits_table, "breast_cancer": breast_cancer_table, "musk1": musk_table}
# Shares of missing entries and of garbage, and the size of the shift.
SETTINGS = {
    "NaN 50%": (0.5, 0.0, 0.0),
    "NaN 50% + bias": (0.5, 0.0, 0.4),
    "garbage 40%": (0.0, 0.4, 0.0),
    "garbage 30% + bias": (0.0, 0.3, 0.4),
    "NaN 30% + garbage 20% + bias": (0.3, 0.2, 0.4),
}
QUICK = ("NaN 50%", "garbage 40%", "NaN 30% + garbage 20% + bias")
LEARNED = ("auto", "mixture", "additive", "footprint", "debiased", "nuisance")


def cells(seeds: int, quick: bool) -> list[Row]:
    return [
        {"dataset": dataset, "setting": setting, "seed": seed}
        for seed in range(seeds)
        for dataset in (["digits"] if quick else TABLES)
        for setting in (QUICK if quick else SETTINGS)
    ]


def run(cell: Row, quick: bool) -> list[Row]:
    seed, table = cell["seed"], TABLES[cell["dataset"]]()
    missing, garbage, bias = SETTINGS[cell["setting"]]
    variant = BrokenVariant(table, missing, garbage, bias, seed)
    pairs = variant.sample(table, PAIRS, seed)
    test = variant.sample(table, QUERIES, seed_of_test(seed))
    limit = ceiling(table, variant, test)
    rows = []
    for name, found in _peers(table, pairs, test.queries, has_gaps=missing > 0).items():
        right = hit_rate(found, test.origins)  # who answers with a stored row has it both ways
        rows.append({**cell, "model": name, "top1": right, "accuracy": right, **limit, "chosen": None})
    for name in LEARNED:
        memory = learn(table, pairs, name, seed)
        row = {**cell, "model": name, **outcome_of(memory, test), **limit}
        rows.append({**row, "chosen": report_of(memory).chosen, "trials": trials_of(memory)})
    return rows


def _peers(table: Tensor, pairs: ahop.Pairs, queries: Tensor, has_gaps: bool) -> dict[str, Tensor]:
    found = {
        "nan_euclidean": nearest_by_nan_euclidean(table, queries),
        "debias + nan_euclidean": nearest_without_shift(table, pairs, queries),
    }
    if has_gaps:
        found["KNNImputer"] = nearest_by_imputing(table, queries)
    return found


def draw(rows: list[Row], path: Path) -> None:
    named = [{**row, "line": f"{row['dataset']}: {row['setting']}"} for row in rows]
    dots(named, path, line="line", title="Top-1 accuracy on broken rows, 50 pairs")


EXPERIMENT = Experiment(
    name="broken_data",
    title="Nearest neighbors of broken rows; 50 pairs",
    seeds=5,
    cells=cells,
    run=run,
    keys=("dataset", "setting", "model"),
    metrics=("top1", "bayes", "accuracy", "bayes_blend"),
    words=("chosen",),
    draw=draw,
    notes=(
        "*top1* counts the first answer, *accuracy* the row nearest to the blended one; *bayes* is the ceiling of "
        "both, *bayes_blend* what the exact posterior reads out, a reference. Noise of standard deviation 0.3 in all "
        "settings; bias is a shift of 0.4 up or down, fixed for each column; garbage is uniform over the values of "
        "its column. Digits are scaled to [-1, 1], columns of the tables to a standard deviation of one. 300 test "
        "queries a seed. The quick form has three of digits."
    ),
)
