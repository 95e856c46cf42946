"""Multiple instance learning: a bag has a label, its instances have none. Which pooling finds what made the label?

Five folds, stratified, drawn anew for each seed. Inside each training fold, and nowhere else, columns are rescaled,
and the setting and the number of epochs are chosen, by the mean area under the curve over inner folds. Networks of
that setting are then trained on the whole training fold, and their mean logit ranks the bags of the test fold.
Everything but the pooling is the same for all models, the grid included.

Paper:
    [tab:cplx-acc], its right half.
"""

from statistics import mean

import numpy as np
import torch
from numpy.typing import NDArray

from experiments.datasets import Bags, load_bags
from experiments.support.bags import Padded, Places, Recipe, auc, folds, train
from experiments.support.differences import paired_differences
from experiments.support.harness import Experiment, Row

DATASETS = {"Tiger": "tiger", "Fox": "fox", "Elephant": "elephant", "UCSB": "ucsb_breast_cancer"}
MODELS = ("M-Hop", "S-Hop", "A-Hop", "attention")
PAPER = {
    "M-Hop": {"Tiger": 0.8924, "Fox": 0.6327, "Elephant": 0.9344, "UCSB": 0.8815},
    "S-Hop": {"Tiger": 0.8923, "Fox": 0.6433, "Elephant": 0.9365, "UCSB": 0.8794},
    "A-Hop": {"Tiger": 0.9030, "Fox": 0.6753, "Elephant": 0.9451, "UCSB": 0.8935},
    "attention": {},
}
FOLDS, INNER = 5, 4
# UCSB has 58 bags, a few of which decide: its folds are drawn four times as often.
MORE_DRAWS = {"UCSB": 4}
NETWORKS = 5
GRID = tuple(Recipe(epochs=40, scaling=scaling, dropout=dropout) for scaling in (0.3, 1.0) for dropout in (0.2, 0.5))
STOPS = (10, 20, 30, 40)
QUICK_GRID, QUICK_STOPS = (Recipe(epochs=10, scaling=0.3, rate=3e-3),), (5, 10)


def cells(seeds: int, quick: bool) -> list[Row]:
    draws = {"Tiger": 1} if quick else {dataset: seeds * MORE_DRAWS.get(dataset, 1) for dataset in DATASETS}
    return [
        {"dataset": dataset, "model": model, "seed": seed}
        for seed in range(max(draws.values()))
        for dataset in draws
        for model in MODELS
        if seed < draws[dataset]
    ]


def run(cell: Row, quick: bool) -> list[Row]:
    found, model, seed = load_bags(DATASETS[cell["dataset"]]), cell["model"], cell["seed"]
    grid, stops = (QUICK_GRID, QUICK_STOPS) if quick else (GRID, STOPS)
    scores, inner_scores = [], []
    recipes, epochs = [0] * len(grid), [0] * len(stops)
    for fold, (known, test) in enumerate(folds(found.labels, FOLDS, seed)):
        first_seed = 1000 * seed + 100 * fold
        reached = _inner(model, found, known, first_seed, quick)
        recipe, stop = (int(place) for place in np.unravel_index(reached.argmax(), reached.shape))
        bags = Padded.of(found.bags, found.labels, known)
        logits = [
            train(model, bags, known, test, grid[recipe], [stops[stop]], first_seed + number)[0]
            for number in range(2 if quick else NETWORKS)
        ]
        scores.append(auc(torch.stack(logits).mean(dim=0), found.labels[test]))
        inner_scores.append(reached.max())
        recipes[recipe] += 1
        epochs[stop] += 1
    return [
        {
            **cell,
            "auc": mean(scores),
            "inner_auc": float(np.mean(inner_scores)),
            "paper": PAPER[model].get(cell["dataset"]),
            "recipes": recipes,
            "epochs": epochs,
        }
    ]


def _inner(model: str, found: Bags, known: Places, seed: int, quick: bool) -> NDArray[np.float64]:
    """How well each recipe ranks held-out bags of a training fold after each number of epochs: (recipes, stops)."""
    grid, stops = (QUICK_GRID, QUICK_STOPS) if quick else (GRID, STOPS)
    inner = folds(found.labels[known], 2 if quick else INNER, seed)
    reached = np.zeros((len(grid), len(stops)))
    for number, (rows, held_out) in enumerate(inner):
        places, asked = known[rows], known[held_out]
        bags = Padded.of(found.bags, found.labels, places)
        for row, recipe in enumerate(grid):
            answers = train(model, bags, places, asked, recipe, stops, seed + number)
            reached[row] += [auc(logits, found.labels[asked]) / len(inner) for logits in answers]
    return reached


def differences(rows: list[Row]) -> list[Row]:
    return paired_differences(rows, of="A-Hop", tasks=("dataset",), metrics=("auc",))


EXPERIMENT = Experiment(
    name="tab_mil",
    title="Multiple instance learning: area under the ROC curve, mean of five test folds",
    seeds=5,
    cells=cells,
    run=run,
    keys=("dataset", "model", "paper"),
    metrics=("auc", "inner_auc"),
    tallies=("recipes", "epochs"),
    differences=differences,
    notes=(
        "Networks: Linear, LayerNorm, ReLU, dropout; a pooling with one learned query; ReLU, LayerNorm, dropout, "
        "Linear. `attention` is gated attention (Ilse and others, 2018) in the place of the Hopfield pooling. AdamW, "
        "batches of 32, cosine schedule over 40 epochs, gradients clipped at 1. Chosen inside each training fold by "
        "four inner folds, never by the test fold: scaling of the scores 0.3 or 1 times the default, dropout 0.2 or "
        "0.5, and 10, 20, 30 or 40 epochs, the same grid for every model; `recipes` and `epochs` count how often each "
        "was. `inner_auc` is what the chosen one reached on the inner folds. The mean logit of five networks is "
        "ranked. Columns are rescaled by the training bags, and cut at five standard deviations; constant columns are "
        "left out. Seeds draw the folds anew, five times, and those of UCSB, which has 58 bags, twenty times; `runs` "
        "says so. A difference is taken between the same folds; its interval is that of other draws of the folds, and "
        "not of other bags."
    ),
)
