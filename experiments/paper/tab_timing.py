"""What sorting costs, in training and in use.

The paper's training rows are swapped (sorting is faster than not sorting there, and slower in use); ours are measured
side by side, interleaved, as medians. Training is one convex fit from 128 pairs; use is one query of a batch of 64.

Paper:
    [tab:timing].
"""

import time
from statistics import median

from torch import Tensor

import ahop
from experiments.support.ablation import UnsortedSimilarity
from experiments.support.data import uniform_patterns
from experiments.support.harness import Experiment, Row

SIZES = [(64, 2048), (128, 2048), (256, 2048), (64, 4096), (64, 8192)]
PAPER = {  # training and inference milliseconds, with and without sorting as printed
    (64, 2048): (840, 2093, 0.355, 0.287),
    (128, 2048): (1573, 3059, 0.368, 0.318),
    (256, 2048): (3609, 8224, 0.414, 0.326),
    (64, 4096): (1531, 4011, 0.446, 0.364),
    (64, 8192): (2949, 7983, 0.570, 0.467),
}
REPEATS = 5


def cells(seeds: int, quick: bool) -> list[Row]:
    sizes = SIZES[:1] if quick else SIZES
    return [{"dimensions": d, "count": n, "seed": seed} for seed in range(seeds) for d, n in sizes]


def run(cell: Row, quick: bool) -> list[Row]:
    dimensions, count, seed = cell["dimensions"], cell["count"], cell["seed"]
    patterns = uniform_patterns(count, dimensions, seed)
    variant = ahop.MixedVariant(0.4, 0.4, 0.4, signs="per_query")
    pairs = variant.sample(patterns, 128, seed)
    queries = variant.sample(patterns, 64, seed + 1).queries
    memories = {
        True: ahop.zoo.a_hop(patterns),
        False: ahop.AssociativeMemory(patterns, UnsortedSimilarity(dimensions)),
    }
    training: dict[bool, list[float]] = {True: [], False: []}
    using: dict[bool, list[float]] = {True: [], False: []}
    for _ in range(1 if quick else REPEATS):
        for is_sorted, memory in memories.items():
            started = time.perf_counter()
            fitted = ahop.fit(memory, pairs=pairs, progress=False)
            training[is_sorted].append(time.perf_counter() - started)
            using[is_sorted].append(_milliseconds_a_query(fitted, queries))
    printed = PAPER[dimensions, count]
    return [
        {
            **cell,
            "sorted": is_sorted,
            "training_ms": 1000 * median(training[is_sorted]),
            "inference_ms": median(using[is_sorted]),
            "training_ratio": median(training[True]) / median(training[False]),
            "inference_ratio": median(using[True]) / median(using[False]),
            "paper_training_ms": printed[0 if is_sorted else 1],
            "paper_inference_ms": printed[2 if is_sorted else 3],
            "paper": None,
            "bayes": None,
        }
        for is_sorted in (True, False)
    ]


def _milliseconds_a_query(memory: ahop.AssociativeMemory, queries: Tensor) -> float:
    memory.recall(queries)
    started = time.perf_counter()
    memory.recall(queries)
    return 1000 * (time.perf_counter() - started) / len(queries)


EXPERIMENT = Experiment(
    name="tab_timing",
    title="Milliseconds with and without sorting; one convex fit from 128 pairs, and one query of a batch of 64",
    seeds=1,
    cells=cells,
    run=run,
    keys=("dimensions", "count", "sorted", "paper_training_ms", "paper_inference_ms"),
    metrics=("training_ms", "inference_ms", "training_ratio", "inference_ratio"),
    notes="Ratios are sorted over unsorted, medians of interleaved repeats. No accuracy, hence no ceiling.",
)
