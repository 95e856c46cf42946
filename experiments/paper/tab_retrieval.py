"""Memory retrieval under heavy mixed corruption.

Paper:
    [tab:ret-acc].
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

import ahop
from ahop.paper.criteria import Retriever
from experiments.support.data import mnist_patterns, uniform_patterns
from experiments.support.harness import Experiment, Row
from experiments.support.measures import ceiling, outcome_of
from experiments.support.models import a_hop, a_hop_by_adam, k2_hop, k_hop, sharpened, with_beta
from experiments.support.pictures import bars
from experiments.support.readings import READINGS

COUNT = 2048


@dataclass(frozen=True)
class Size:
    """How much work goes into a cell: test queries, pairs of A-Hop, epochs of kernels."""

    queries: int
    pairs: int
    epochs: int


QUICK = Size(queries=200, pairs=512, epochs=30)
SIZES = {
    ("synthetic", 0.4): Size(queries=1000, pairs=2048, epochs=100),
    ("synthetic", 0.5): Size(queries=1000, pairs=2048, epochs=100),
    ("mnist", 0.6): Size(queries=500, pairs=1024, epochs=30),
    ("mnist", 0.7): Size(queries=500, pairs=2048, epochs=30),
}
CELLS = [("synthetic", 0.4), ("synthetic", 0.5), ("mnist", 0.6), ("mnist", 0.7)]
# What runs together.
MEMORIES, ADAM = "memories", "adam"
PAPER: dict[
    str, list[tuple[float | None, float | None]]
] = {  # accuracy and error; the error .764 of K-Hop at synthetic .5 is a misprint and left out
    "M-Hop": [(0.520, 0.176), (0.195, 0.300), (0.875, 0.013), (0.661, 0.068)],
    "U-Hop": [(0.260, 0.417), (0.059, 0.554), (0.540, 0.143), (0.176, 0.347)],
    "K-Hop": [(0.487, 0.295), (0.177, None), (0.764, 0.064), (0.526, 0.164)],
    "K2-Hop": [(0.521, 0.176), (0.195, 0.298), (0.878, 0.013), (0.660, 0.068)],
    "A-Hop": [(0.724, 0.106), (0.360, 0.227), (0.939, 0.005), (0.849, 0.015)],
}


def cells(seeds: int, quick: bool) -> list[Row]:
    return [
        {"reading": reading, "dataset": dataset, "difficulty": difficulty, "part": part, "seed": seed}
        for seed in range(seeds)
        for part in (MEMORIES, ADAM)
        for reading in (["as fitted"] if quick else READINGS)
        for dataset, difficulty in CELLS
        if not (dataset == "mnist" and part == ADAM) and not (quick and (dataset, difficulty) != CELLS[0])
    ]


def run(cell: Row, quick: bool) -> list[Row]:
    dataset, difficulty, seed = cell["dataset"], cell["difficulty"], cell["seed"]
    size = QUICK if quick else SIZES[dataset, difficulty]
    patterns, variant, pairs = drawn(cell, size.queries)
    chosen_on = variant.sample(patterns, size.pairs // 2, seed=20_000 + seed)
    models: dict[str, Callable[[], Retriever]]
    if cell["part"] == MEMORIES:
        adaptive = a_hop(patterns, variant, seed, size.pairs)
        m_hop, euclid = ahop.zoo.m_hop(patterns), ahop.AssociativeMemory(patterns, ahop.EuclideanSimilarity())
        models = {
            "M-Hop": lambda: m_hop,
            "M-Hop, fitted beta": lambda: with_beta(m_hop, chosen_on),
            "Euclid, fitted beta": lambda: with_beta(euclid, chosen_on),
            "U-Hop": lambda: ahop.zoo.u_hop(patterns),
            "K-Hop": lambda: k_hop(patterns, seed, size.epochs),
            "K2-Hop": lambda: k2_hop(patterns, variant, seed, size.epochs),
            "A-Hop": lambda: adaptive,
            "A-Hop, sharper": lambda: sharpened(adaptive, variant, seed),
        }
    else:
        models = {"A-Hop, Adam": lambda: a_hop_by_adam(patterns, variant, seed, 20 if quick else 200)}
    limit = ceiling(patterns, variant, pairs)
    return [
        {**cell, "model": name, **outcome_of(make(), pairs), **limit, **_paper(name, dataset, difficulty)}
        for name, make in models.items()
    ]


def drawn(cell: Row, queries: int) -> tuple[Tensor, ahop.MixedVariant, ahop.Pairs]:
    """Stored patterns, the corruption of their copies, and test queries."""
    dataset, difficulty, seed = cell["dataset"], cell["difficulty"], cell["seed"]
    patterns = mnist_patterns(COUNT, seed) if dataset == "mnist" else uniform_patterns(COUNT, 64, seed)
    variant = READINGS[cell["reading"]].variant(difficulty, difficulty, difficulty)
    return patterns, variant, variant.sample(patterns, queries, seed=10_000 + seed)


def _paper(model: str, dataset: str, difficulty: float) -> Row:
    """What the paper prints; its A-Hop stands beside each form of ours."""
    name = "A-Hop" if model == "A-Hop, Adam" else model
    accuracy, error = PAPER[name][CELLS.index((dataset, difficulty))] if name in PAPER else (None, None)
    return {"paper": accuracy, "paper_error": error}


def draw(rows: list[Row], path: Path) -> None:
    bars(rows, path, panel=("reading", "dataset", "difficulty"), title="Retrieval accuracy, N = 2048")


EXPERIMENT = Experiment(
    name="tab_retrieval",
    title="Retrieval accuracy and error (mean squared, per dimension); N = 2048, bias signs per query",
    seeds=5,
    cells=cells,
    run=run,
    keys=("reading", "dataset", "difficulty", "model", "paper", "paper_error"),
    metrics=("accuracy", "top1", "error", "bayes", "bayes_blend"),
    draw=draw,
    notes=(
        "*accuracy* counts as the paper does, the pattern nearest to the blended answer; *bayes_blend* is that of the"
        " exact posterior, a reference and no bound: the same posterior read out sharper can pass it. *top1* counts "
        "the first answer; its ceiling is *bayes*, which bounds *accuracy* too. Both are of the queries that the "
        "models answered, 1000 a seed, on MNIST 500. *as written* is the generator of the paper's text with noise as "
        "a standard deviation, *as fitted* the one that its figures need (`generator`). A-Hop: convex optimum from "
        "2048 pairs, at MNIST .6 from 1024; *A-Hop, Adam* is the paper's very recipe (200 epochs, rate .1, 64 fresh "
        "pairs each; not on MNIST, where it takes half an hour a cell); *sharper* is ours, its readout beta chosen on"
        " 500 other pairs. A fitted beta is the likeliest of other pairs. The perceptron of the paper's text is in "
        "`tab_perceptron`. The quick form has one cell, 200 queries, 512 pairs, and 20 epochs of Adam where 200 are "
        "needed."
    ),
)
