"""What sorting costs, in training and in use.

The paper's training rows are swapped (sorting is faster than not sorting there, and slower in use). Time until a fit
has converged says more of the fit than of sorting, so that single gradients and a fixed number of steps are timed here,
side by side, interleaved, as medians: with and without sorting, each as the formula reads and as it is shipped. Without
sorting the shipped form is one matrix product.

Paper:
    [tab:timing].
"""

import time
from collections.abc import Callable
from statistics import median

import torch
from torch import Tensor

import ahop
from experiments.support.ablation import PlainSimilarity, UnsortedSimilarity
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
PLAIN, SHIPPED = "as the formula reads", "as shipped"
REPEATS, PAIRS, STEPS = 5, 32, 10


def cells(seeds: int, quick: bool) -> list[Row]:
    sizes = SIZES[:1] if quick else SIZES
    return [{"dimensions": d, "count": n, "seed": seed} for seed in range(seeds) for d, n in sizes]


def run(cell: Row, quick: bool) -> list[Row]:
    dimensions, count, seed = cell["dimensions"], cell["count"], cell["seed"]
    patterns = uniform_patterns(count, dimensions, seed)
    variant = ahop.MixedVariant(0.4, 0.4, 0.4, signs="per_query")
    pairs, queries = variant.sample(patterns, PAIRS, seed), variant.sample(patterns, 64, seed + 1).queries
    forms = {
        (True, PLAIN): PlainSimilarity(dimensions, is_sorted=True),
        (True, SHIPPED): ahop.AdaptiveSimilarity(dimensions),
        (False, PLAIN): PlainSimilarity(dimensions, is_sorted=False),
        (False, SHIPPED): UnsortedSimilarity(dimensions),
    }
    memories = {form: ahop.AssociativeMemory(patterns, similarity) for form, similarity in forms.items()}
    spent: dict[tuple[bool, str], list[tuple[float, float, float]]] = {form: [] for form in memories}
    for _ in range(1 if quick else REPEATS):
        for form, memory in memories.items():
            spent[form].append((_gradient(memory, pairs), _steps(memory, pairs), _use(memory, queries)))
    found = {form: [median(each) for each in zip(*times, strict=True)] for form, times in spent.items()}
    printed = PAPER[dimensions, count]
    return [
        {
            **cell,
            "sorted": is_sorted,
            "form": form,
            "gradient_ms": found[is_sorted, form][0],
            "steps_ms": found[is_sorted, form][1],
            "inference_ms": found[is_sorted, form][2],
            "gradient_ratio": found[True, form][0] / found[False, form][0],
            "inference_ratio": found[True, form][2] / found[False, form][2],
            "paper_training_ms": printed[0 if is_sorted else 1],
            "paper_inference_ms": printed[2 if is_sorted else 3],
            "paper": None,
            "bayes": None,
        }
        for is_sorted, form in memories
    ]


def _milliseconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return 1000 * (time.perf_counter() - started)


def _gradient(memory: ahop.AssociativeMemory, pairs: ahop.Pairs) -> float:
    """One loss with its gradient, of `PAIRS` pairs."""
    return _milliseconds(lambda: _loss(memory, pairs).backward())  # type: ignore[no-untyped-call]


def _steps(memory: ahop.AssociativeMemory, pairs: ahop.Pairs) -> float:
    """`STEPS` steps of Adam."""
    optimizer = torch.optim.Adam(memory.parameters(), lr=1e-4)

    def steps() -> None:
        for _ in range(STEPS):
            optimizer.zero_grad()
            _loss(memory, pairs).backward()  # type: ignore[no-untyped-call]
            optimizer.step()

    return _milliseconds(steps)


def _use(memory: ahop.AssociativeMemory, queries: Tensor) -> float:
    """One query of a batch."""
    with torch.no_grad():
        return _milliseconds(lambda: memory.scores(queries).max(-1)) / len(queries)


def _loss(memory: ahop.AssociativeMemory, pairs: ahop.Pairs) -> Tensor:
    return torch.nn.functional.cross_entropy(memory.scores(pairs.queries), pairs.origins)


EXPERIMENT = Experiment(
    name="tab_timing",
    title="Milliseconds with and without sorting; one gradient and ten steps of Adam from 32 pairs, one query of 64",
    seeds=5,
    cells=cells,
    run=run,
    keys=("dimensions", "count", "sorted", "form", "paper_training_ms", "paper_inference_ms"),
    metrics=("gradient_ms", "steps_ms", "inference_ms", "gradient_ratio", "inference_ratio"),
    notes=(
        "Ratios are sorted over unsorted of the same form, medians of interleaved repeats. The paper's training is "
        "something else, and printed for its order alone. No accuracy, hence no ceiling."
    ),
)
