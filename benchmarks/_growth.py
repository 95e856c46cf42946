"""Time for each query from 10^5 to 10^7 structured patterns, with as few lists as keep the share of origins."""

from math import log

import torch
from torch import Tensor

import ahop
from ahop import lift
from ahop.scale.indexes import ExactEngine, FaissEngine, Index, lifted
from benchmarks._large import CANDIDATES, PAIRS, QUERIES, index_bytes, structured
from benchmarks.measuring import medians, timed

COUNTS = (100_000, 1_000_000, 10_000_000)
# The share among the candidates that is kept, of the origins that an exhaustive search answers first.
HIT = 0.98
# Queries that are asked of all rows, to compare with.
SAMPLED = 500


def growth(counts: tuple[int, ...] = COUNTS) -> dict[str, object]:
    points = {count: _point(structured(count)) for count in counts}
    first, last = (float(str(points[count]["microseconds_a_query"])) for count in (counts[0], counts[-1]))
    exponent = log(last / first) / log(counts[-1] / counts[0])
    return {"growth_exponent": round(exponent, 3), **{str(count): point for count, point in points.items()}}


def _point(patterns: Tensor) -> dict[str, object]:
    variant = ahop.MixedVariant(0.3, 0.3, 0.3)
    pairs, test = variant.sample(patterns, PAIRS, seed=1), variant.sample(patterns, QUERIES, seed=2)
    memory = ahop.fit(patterns, pairs=pairs, similarity="mixture", progress=False)
    lifting = lift(memory.similarity, patterns, pairs.queries)
    vectors, some = lifted(memory, lifting), slice(SAMPLED)
    exact = Index(memory, lifting, ExactEngine(vectors), CANDIDATES).recall(test.queries[some])
    engine, seconds_to_build = timed(lambda: FaissEngine.build(vectors, "ivf_pq", "augmented"))
    first = exact.indices[:, 0] == test.origins[some]
    engine, hit = _just_enough(engine, lifting.lift_queries(test.queries[some][first]), test.origins[some][first])
    index = Index(memory, lifting, engine, CANDIDATES)
    seconds = medians({"ours": lambda: index.recall(test.queries)}, 3)["ours"]
    right, best = (
        float((found.indices[:, 0] == test.origins[some]).double().mean())
        for found in (index.recall(test.queries[some]), exact)
    )
    return {
        "hit": round(hit, 3),
        "lists": engine.lists,
        "effort": engine.effort,
        "microseconds_a_query": round(1e6 * seconds / QUERIES, 1),
        "index_gigabytes": round(index_bytes(engine) / 1e9, 3),
        "top1_share_of_exact": round(right / best, 4),
        "seconds_to_build": round(seconds_to_build, 1),
    }


@torch.no_grad()
def _just_enough(engine: FaissEngine, asked: Tensor, origins: Tensor) -> tuple[FaissEngine, float]:
    """The least effort, to about a tenth, that finds so many origins."""
    effort, hit = 1, 0.0
    while True:
        tried = engine.with_effort(effort)
        found = tried.search(asked, CANDIDATES).indices == origins.unsqueeze(-1)
        hit = float(found.any(-1).double().mean())
        if hit >= HIT or effort == engine.lists:
            return tried, hit
        effort = min(engine.lists, effort + max(1, effort // 10))
