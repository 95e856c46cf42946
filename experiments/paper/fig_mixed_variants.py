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
from experiments.support.measures import ceiling, outcome_of
from experiments.support.models import a_hop, k2_hop, k_hop, with_beta
from experiments.support.pictures import radars
from experiments.support.readings import READINGS

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
    strengths = STRENGTHS[::6] if quick else STRENGTHS
    return [
        {"reading": reading, "count": count, "mask": mask, "noise": noise, "bias": bias, "seed": seed}
        for seed in range(seeds)
        for reading in (["as fitted"] if quick else READINGS)
        for count in counts
        for mask, noise, bias in strengths
    ]


def run(cell: Row, quick: bool) -> list[Row]:
    seed = cell["seed"]
    patterns = uniform_patterns(cell["count"], 64, seed)
    variant = READINGS[cell["reading"]].variant(cell["mask"], cell["noise"], cell["bias"])
    pairs = variant.sample(patterns, 200 if quick else 400, seed=10_000 + seed)
    chosen_on = variant.sample(patterns, 200, seed=20_000 + seed)
    m_hop, euclid = ahop.zoo.m_hop(patterns), ahop.AssociativeMemory(patterns, ahop.EuclideanSimilarity())
    models = {
        "M-Hop": m_hop,
        "M-Hop, fitted beta": with_beta(m_hop, chosen_on),
        "Euclid, fitted beta": with_beta(euclid, chosen_on),
        "U-Hop": ahop.zoo.u_hop(patterns),
        "K-Hop": k_hop(patterns, seed, epochs=20),
        "K2-Hop": k2_hop(patterns, variant, seed, epochs=25),
        "A-Hop": a_hop(patterns, variant, seed, samples=512),
    }
    setting, limit = label(cell["mask"], cell["noise"], cell["bias"]), ceiling(patterns, variant, pairs)
    return [
        {**cell, "setting": setting, "model": name, **outcome_of(memory, pairs), **limit, "paper": None}
        for name, memory in models.items()
    ]


def draw(rows: list[Row], path: Path) -> None:
    panels = {
        f"N = {count}, {reading}": [row for row in rows if row["count"] == count and row["reading"] == reading]
        for reading in READINGS
        for count in COUNTS
    }
    radars(panels, [label(*strength) for strength in STRENGTHS], path, "Retrieval accuracy, d = 64")


EXPERIMENT = Experiment(
    name="fig_mixed_variants",
    title="Retrieval accuracy over twelve settings of the mixed variant; d = 64",
    seeds=5,
    cells=cells,
    run=run,
    keys=("reading", "count", "setting", "model", "paper"),
    metrics=("accuracy", "top1", "bayes", "bayes_blend"),
    draw=draw,
    notes=(
        "The paper's figure prints no numbers, and names its twelve settings only inside it; these are ours. "
        "*accuracy* counts as the paper does; *bayes_blend* is the blended answer of the exact posterior, a reference "
        "and no bound (the same posterior read out sharper can pass it). *top1* counts the first answer; its ceiling "
        "is "
        "*bayes*, all on the same 400 test queries. *as fitted* makes noise 1.2 and bias 1.5 times larger and masks "
        "last (`generator`). Bias signs per query; A-Hop from 512 pairs; kernels of K-Hop 20 and of K2-Hop 25 epochs; "
        "a fitted beta is the likeliest of 200 other pairs. The quick form has two settings."
    ),
)
