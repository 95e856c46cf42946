"""Retrieval accuracy over twelve kinds of corruption and two sizes of memory.

The paper lists its twelve settings only inside its figure; these are ours: three strengths of each corruption alone,
and three of all together.

Paper:
    [fig:ret-acc], [sec:mem-ret].
"""

from pathlib import Path

import ahop
from experiments.support.data import uniform_patterns
from experiments.support.harness import Experiment, Row
from experiments.support.models import a_hop, k2_hop, k_hop
from experiments.support.pictures import radars

STRENGTHS = [
    *[(mask, 0.0, 0.0) for mask in (0.6, 0.7, 0.8)],
    *[(0.0, noise, 0.0) for noise in (0.6, 0.8, 1.0)],
    *[(0.0, 0.0, bias) for bias in (0.6, 0.8, 1.0)],
    *[(each, each, each) for each in (0.3, 0.4, 0.5)],
]
COUNTS = (2048, 4096)


def label(mask: float, noise: float, bias: float) -> str:
    if mask and noise and bias:
        return f"all {mask:g}"
    return f"mask {mask:g}" if mask else f"noise {noise:g}" if noise else f"bias {bias:g}"


def cells(seeds: int, quick: bool) -> list[Row]:
    counts = COUNTS[:1] if quick else COUNTS
    strengths = STRENGTHS[::4] if quick else STRENGTHS
    return [
        {"count": count, "mask": mask, "noise": noise, "bias": bias, "seed": seed}
        for seed in range(seeds)
        for count in counts
        for mask, noise, bias in strengths
    ]


def run(cell: Row, quick: bool) -> list[Row]:
    seed = cell["seed"]
    patterns = uniform_patterns(cell["count"], 64, seed)
    variant = ahop.MixedVariant(cell["mask"], cell["noise"], cell["bias"], signs="per_query")
    pairs = variant.sample(patterns, 300 if quick else 600, seed=10_000 + seed)
    ceiling = ahop.criteria.bayes_accuracy(patterns, variant, queries=300, seed=10_000 + seed)
    models = {
        "M-Hop": ahop.zoo.m_hop(patterns),
        "U-Hop": ahop.zoo.u_hop(patterns),
        "K-Hop": k_hop(patterns, seed, epochs=20),
        "K2-Hop": k2_hop(patterns, variant, seed, epochs=25),
        "A-Hop": a_hop(patterns, variant, seed, samples=512),
    }
    setting = label(cell["mask"], cell["noise"], cell["bias"])
    return [
        {
            **cell,
            "setting": setting,
            "model": name,
            "accuracy": ahop.evaluate(memory, pairs).accuracy,
            "bayes": ceiling,
            "paper": None,
        }
        for name, memory in models.items()
    ]


def draw(rows: list[Row], path: Path) -> None:
    panels = {f"N = {count}": [row for row in rows if row["count"] == count] for count in COUNTS}
    radars(panels, [label(*strength) for strength in STRENGTHS], path, "Retrieval accuracy, d = 64")


EXPERIMENT = Experiment(
    name="fig_mixed_variants",
    title="Retrieval accuracy over twelve settings of the mixed variant; d = 64",
    seeds=1,
    cells=cells,
    run=run,
    keys=("count", "setting", "model", "paper"),
    metrics=("accuracy", "bayes"),
    draw=draw,
    notes=(
        "The paper's figure prints no numbers. 600 test queries (300 for the ceiling); bias signs per query; "
        "A-Hop from 512 pairs; kernels of K-Hop 20 and of K2-Hop 25 epochs. The quick form has three settings."
    ),
)
