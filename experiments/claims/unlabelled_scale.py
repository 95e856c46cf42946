"""Many stored patterns: does learning without labels find as much, and does it take longer?"""

import time

import ahop
from experiments.support.data import uniform_patterns
from experiments.support.harness import Experiment, Row
from experiments.support.settings import seed_of_test
from experiments.support.unlabelled import first_answers, seed_of_log

COUNTS, QUICK_COUNTS = (20_000, 200_000), (5_000, 20_000)
QUERIES, TESTED = 512, 1000


def cells(seeds: int, quick: bool) -> list[Row]:
    return [{"count": count, "seed": seed} for seed in range(seeds) for count in (QUICK_COUNTS if quick else COUNTS)]


def run(cell: Row, quick: bool) -> list[Row]:
    seed, count = cell["seed"], cell["count"]
    patterns = uniform_patterns(count, 64, seed)
    variant = ahop.MixedVariant(0.4, 0.4, 0.4, seed=seed)
    queries = variant.sample(patterns, QUERIES, seed_of_log(seed)).queries
    test = variant.sample(patterns, 200 if quick else TESTED, seed_of_test(seed))
    started = time.process_time()
    memory = ahop.fit(patterns, queries=queries, seed=seed, progress=False)
    seconds = time.process_time() - started
    plain = ahop.AssociativeMemory(patterns, ahop.EuclideanSimilarity())
    return [{**cell, "accuracy": first_answers(memory, test), "plain": first_answers(plain, test), "seconds": seconds}]


EXPERIMENT = Experiment(
    name="unlabelled_scale",
    title="Learning from 512 queries without labels among many patterns; d = 64, all three at .4, constant bias signs",
    seeds=5,
    cells=cells,
    run=run,
    keys=("count",),
    metrics=("accuracy", "plain", "seconds"),
    notes=(
        "Of many patterns, those that are near to a query by distance may be its origin. *accuracy* counts the first "
        "answer of 1000 queries a seed, *plain* of the Euclidean metric. *seconds* are of one processor."
    ),
)
