"""What a log of queries teaches, beside what the same queries teach with their origins, and the plain metric."""

import time

from torch import Tensor

import ahop
from experiments.support.harness import Row
from experiments.support.learning import learn, report_of
from experiments.support.measures import hit_rate, tallied

TALLIES = ("count", "said", "hits")
METRICS = ("accuracy", "labelled", "plain", "blended", "seconds")


def compared(
    patterns: Tensor, pairs: ahop.Pairs, test: ahop.Pairs, seed: int, queries: Tensor, labels: ahop.Pairs | None = None
) -> Row:
    """First answers that are right: after learning from queries, from pairs, and from nothing.

    Args:
        pairs: what the labeled form learns from.
        queries: whose origins nobody says.
        labels: pairs that stand beside the queries.
    """
    started = time.process_time()
    memory = ahop.fit(patterns, queries=queries, pairs=labels, seed=seed, progress=False)
    seconds = time.process_time() - started
    answer = memory.recall(test.queries)
    right = answer.indices[:, 0] == test.origins
    plain = ahop.AssociativeMemory(patterns, ahop.EuclideanSimilarity())
    return {
        "accuracy": float(right.double().mean()),
        "labelled": first_answers(learn(patterns, pairs, "auto", seed), test),
        "plain": first_answers(plain, test),
        "blended": ahop.evaluate(memory, test).accuracy,
        "seconds": seconds,
        "chosen": report_of(memory).chosen,
        **tallied(answer.posterior[:, 0], right),
    }


def first_answers(memory: ahop.AssociativeMemory, test: ahop.Pairs) -> float:
    return hit_rate(memory.recall(test.queries).indices[:, 0], test.origins)


def seed_of_log(seed: int) -> int:
    """Not that of the patterns: the same numbers again would make queries look like patterns they are not of."""
    return 50_000 + seed
