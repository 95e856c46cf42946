"""What each part that was added to the paper's classifier is worth: without it, or with another in its place."""

import time
from typing import Any

from experiments.support.harness import Experiment, Row
from experiments.support.tables import means, ours, split, table_cells

PARTS: dict[str, dict[str, Any]] = {
    "as it comes": {},
    "prototypes alone": {"n_members": 4, "n_row_memories": 0},
    "one of each": {"n_members": 1, "n_row_memories": 1},
    "columns standardized, not cut": {"intervals": None},
    "no embedding": {"embedding": None},
    "prototypes stay where they start": {"learn_prototypes": False},
    "prototypes start at clusters": {"init": "kmeans"},
    "squared loss": {"loss": "squared"},
    "inner product": {"similarity": "dot"},
    "adaptive similarity": {"similarity": "adaptive"},
}


def cells(seeds: int, quick: bool) -> list[Row]:
    return table_cells(list(PARTS)[:3] if quick else PARTS, range(seeds), quick)


def run(cell: Row, quick: bool) -> list[Row]:
    data = split(cell["dataset"], cell["seed"], quick)
    started = time.perf_counter()
    model = ours(*data.columns, cell["seed"], **{"n_members": 2, "n_row_memories": 2, **PARTS[cell["model"]]}).fit(
        *data.training
    )
    return [{**cell, **data.score(model), "seconds": round(time.perf_counter() - started, 2)}]


EXPERIMENT = Experiment(
    name="tab_tabular_parts",
    title="What the parts of the classifier are worth",
    seeds=2,
    cells=cells,
    run=run,
    keys=("dataset", "model"),
    metrics=("accuracy", "auc", "seconds"),
    summarize=means,
    notes=(
        "The splits of `tab_tabular`, no tuning: `PrototypeClassifier` with its defaults, and one thing changed in "
        "each line. `seconds` is fitting and answering on one thread."
    ),
)
