"""The four-layer perceptron that the paper's text compares with and its table leaves out, on the tasks of the table."""

from experiments.paper.tab_retrieval import CELLS, drawn
from experiments.support.harness import Experiment, Row
from experiments.support.measures import ceiling, outcome_of
from experiments.support.models import PerceptronMemory
from experiments.support.readings import READINGS

STEPS, QUICK_STEPS, QUERIES, QUICK_QUERIES = 3000, 60, 500, 200


def cells(seeds: int, quick: bool) -> list[Row]:
    return [
        {"reading": reading, "dataset": dataset, "difficulty": difficulty, "seed": seed}
        for seed in range(seeds)
        for reading in (["as fitted"] if quick else READINGS)
        for dataset, difficulty in (CELLS[:1] if quick else CELLS)
    ]


def run(cell: Row, quick: bool) -> list[Row]:
    patterns, variant, pairs = drawn(cell, QUICK_QUERIES if quick else QUERIES)
    memory = PerceptronMemory(patterns, variant, QUICK_STEPS if quick else STEPS, cell["seed"])
    return [{**cell, "model": "MLP", **outcome_of(memory, pairs), **ceiling(patterns, variant, pairs), "paper": None}]


EXPERIMENT = Experiment(
    name="tab_perceptron",
    title="The perceptron on the tasks of retrieval; N = 2048, bias signs per query",
    seeds=5,
    cells=cells,
    run=run,
    keys=("reading", "dataset", "difficulty", "model", "paper"),
    metrics=("accuracy", "top1", "error", "bayes", "bayes_blend"),
    notes=(
        "Columns as in `tab_retrieval`, on 500 queries a seed. The perceptron is a classifier over the stored "
        "patterns: it learns from fresh pairs until the loss of held-out ones stops falling, at most 3000 steps of "
        "256. The paper describes it and prints no figures. The quick form has one cell."
    ),
)
