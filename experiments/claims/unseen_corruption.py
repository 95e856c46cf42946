"""Corruption that nobody wrote a model for: does learning from pairs still beat the best fixed metric?

How strong each corruption is was set by looking at the fixed metrics alone, on other seeds, so that the best of them
finds between a third and four fifths.
"""

from pathlib import Path
from statistics import mean

from torch import Tensor

import ahop
from experiments.support.corruptions import UNSEEN, UnseenVariant
from experiments.support.data import uniform_patterns
from experiments.support.harness import Experiment, Row
from experiments.support.learning import learn, report_of, trials_of
from experiments.support.measures import outcome_of
from experiments.support.pictures import dots
from experiments.support.settings import seed_of_test

BEST = "best fixed"


def cells(seeds: int, quick: bool) -> list[Row]:
    return [{"corruption": name, "seed": seed} for seed in range(seeds) for name in UNSEEN]


def run(cell: Row, quick: bool) -> list[Row]:
    seed = cell["seed"]
    patterns = uniform_patterns(2048, 64, seed)
    variant = UnseenVariant(cell["corruption"], seed)
    pairs = variant.sample(patterns, 512, seed)
    test = variant.sample(patterns, 400, seed_of_test(seed))
    found = {name: outcome_of(memory, test) for name, memory in _fixed(patterns).items()}
    best = max(found, key=lambda name: found[name]["top1"])
    learned = learn(patterns, pairs, "auto", seed)
    return [
        *({**cell, "model": name, **found[name], "chosen": None} for name in found),
        {**cell, "model": BEST, **found[best], "chosen": best},
        {
            **cell,
            "model": "auto",
            **outcome_of(learned, test),
            "chosen": report_of(learned).chosen,
            "trials": trials_of(learned),
        },
    ]


def _fixed(patterns: Tensor) -> dict[str, ahop.AssociativeMemory]:
    """Metrics as they are; cosine is the dot product with patterns of length one."""
    unit = patterns / patterns.norm(dim=-1, keepdim=True)
    return {
        "euclidean": ahop.AssociativeMemory(patterns, ahop.EuclideanSimilarity()),
        "manhattan": ahop.AssociativeMemory(patterns, ahop.similarities.ManhattanSimilarity()),
        "dot": ahop.AssociativeMemory(patterns, ahop.DotSimilarity()),
        "cosine": ahop.AssociativeMemory(unit, ahop.DotSimilarity()),
    }


def summarize(rows: list[Row]) -> list[Row]:
    """The mean over corruptions, for each model."""
    models: dict[str, list[float]] = {}
    for row in rows:
        models.setdefault(row["model"], []).append(row["top1"])
    return [
        {"corruption": "mean", "model": model, "top1": round(mean(found), 5), "chosen": None}
        for model, found in models.items()
    ]


def draw(rows: list[Row], path: Path) -> None:
    kept = [row for row in rows if row["model"] != BEST]
    dots(kept, path, line="corruption", title="Top-1 accuracy under corruption that nobody parametrized")


EXPERIMENT = Experiment(
    name="unseen_corruption",
    title="Corruption that no model of ours describes; synthetic, N = 2048, d = 64, 512 pairs",
    seeds=5,
    cells=cells,
    run=run,
    keys=("corruption", "model"),
    metrics=("top1", "accuracy"),
    words=("chosen",),
    summarize=summarize,
    draw=draw,
    notes=(
        "400 test queries a seed. `best fixed` takes the best of the four metrics for each corruption and seed after "
        "looking at the test queries, which favors it; `auto` chooses on its pairs."
    ),
)
