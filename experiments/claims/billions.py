"""Shards, replicas, stragglers and failures from a million to 10^11 patterns: a simulation on measured costs."""

from math import ceil
from pathlib import Path

import numpy as np

from experiments.support.costs import (
    FAN_OUT,
    JITTER,
    READ_BYTES_A_SECOND,
    ROUND_TRIP_SECONDS,
    SECONDS_BETWEEN_FAILURES,
    SLOW_FACTOR,
    SLOW_SHARE,
    Costs,
    measured_costs,
)
from experiments.support.harness import Experiment, Row
from experiments.support.pictures import waits

ROWS_A_SHARD = 25_000_000
COUNTS = (10**6, 10**7, 10**8, 10**9, 10**10, 10**11)
# Of the time of every copy, this much is asked for: waiting in line multiplies over shards.
LOAD = 0.3
QUERIES, QUICK_QUERIES = 20_000, 2_000
# A second replica is asked once the first has taken longer than this share of answers does.
PATIENCE = 0.95
# Copies of each shard, whether a slow one is asked again elsewhere, and whether a machine is gone.
SETTINGS = {
    "one copy": (1, False, False),
    "two copies": (2, False, False),
    "two, asked again when slow": (2, True, False),
    "three, asked again when slow": (3, True, False),
    "the same, one machine lost": (3, True, True),
}


def cells(seeds: int, quick: bool) -> list[Row]:
    counts = (10**6, 10**9) if quick else COUNTS
    return [
        {"patterns": count, "setting": name, "seed": seed}
        for seed in range(seeds)
        for count in counts
        for name in SETTINGS
    ]


def run(cell: Row, quick: bool) -> list[Row]:
    costs, count = measured_costs(), cell["patterns"]
    replicas, hedged, lost = SETTINGS[cell["setting"]]
    shards = ceil(count / ROWS_A_SHARD)
    rows = count / shards
    machines = max(replicas, ceil(shards * replicas / costs.shards_a_machine(rows)))
    alive = np.ones((shards, replicas), dtype=bool)
    if lost:  # the first machine holds one copy of each of its shards
        alive[: costs.shards_a_machine(rows), 0] = False
    queries = QUICK_QUERIES if quick else QUERIES
    seconds = latencies(costs.seconds_to_answer(rows), alive, hedged, queries, np.random.default_rng(cell["seed"]))
    percentiles = dict(zip(("p50_ms", "p99_ms", "p999_ms"), np.percentile(1e3 * seconds, (50, 99, 99.9)), strict=True))
    return [
        {
            **cell,
            "shards": shards,
            "machines": machines,
            "index_gb": round(count * replicas * costs.index_bytes / 1e9, 2),
            "patterns_gb": round(count * costs.pattern_bytes / 1e9, 2),
            **{name: round(float(value), 2) for name, value in percentiles.items()},
            "queries_a_second": round(LOAD * replicas / costs.seconds_to_answer(rows)),
            "told_to_retry": float(f"{unanswerable(costs, rows, shards, replicas):.2g}"),
            "update_us": round(1e6 * replicas * costs.seconds_to_index, 1),
            "rebuild_core_hours": round(count * replicas * costs.seconds_to_index / 3600, 2),
        }
    ]


def latencies(service: float, alive: np.ndarray, hedged: bool, queries: int, random: np.random.Generator) -> np.ndarray:
    """Seconds from each query to its merged answer: every shard is asked, and the last to answer decides.

    Queries come at random, and of a shard's copies the one that is free first is asked. If it takes too long, so is
    another, and the faster one answers.
    """
    shards, replicas = alive.shape
    free_at = np.where(alive, 0.0, np.inf)
    arrivals = np.cumsum(random.exponential(service / (LOAD * replicas), queries))
    patience, everyone = service * _quantile(PATIENCE, random), np.arange(shards)
    found = np.empty(queries)
    for number, now in enumerate(arrivals):
        first = free_at.argmin(1)
        begun = np.maximum(free_at[everyone, first], now)
        done = begun + service * _slowness(shards, random)
        if hedged and replicas > 1:
            late = (done > begun + patience).nonzero()[0]
            others = free_at[late]
            others[np.arange(len(late)), first[late]] = np.inf
            second = others.argmin(1)
            again_begun = np.maximum(others.min(1), begun[late] + patience)
            sooner = np.minimum(done[late], again_begun + service * _slowness(len(late), random))
            # What is no longer wanted stops, and what has not begun by then never does.
            helped = again_begun < sooner
            free_at[late[helped], second[helped]] = sooner[helped]
            done[late] = sooner
        free_at[everyone, first] = done
        found[number] = done.max() - now
    floors = 1 if shards <= FAN_OUT else 2
    return found[queries // 10 :] + floors * ROUND_TRIP_SECONDS


def unanswerable(costs: Costs, rows: float, shards: int, replicas: int) -> float:
    """The share of time in which some shard has no copy."""
    recovery = rows * (costs.index_bytes + costs.pattern_bytes) / READ_BYTES_A_SECOND
    return float(-np.expm1(shards * np.log1p(-((recovery / SECONDS_BETWEEN_FAILURES) ** replicas))))


def _slowness(count: int, random: np.random.Generator) -> np.ndarray:
    """Of each answer, beside the usual time: a little spread, and a few that are slow."""
    return np.exp(JITTER * random.standard_normal(count)) * np.where(
        random.random(count) < SLOW_SHARE, SLOW_FACTOR, 1.0
    )


def _quantile(share: float, random: np.random.Generator) -> float:
    return float(np.quantile(_slowness(100_000, random), share))


def draw(rows: list[Row], path: Path) -> None:
    waits(rows, path, "How long an answer takes, simulated on measured costs")


EXPERIMENT = Experiment(
    name="billions",
    title="From a million to 10^11 patterns, simulated on measured costs",
    seeds=3,
    cells=cells,
    run=run,
    keys=("patterns", "setting"),
    metrics=("p50_ms", "p99_ms", "p999_ms"),
    draw=draw,
    notes=(
        f"Shards of at most {ROWS_A_SHARD:,} patterns, each copy busy for 30% of its time. Measured by "
        "`python -m benchmarks scale`: bytes of a row, time to lift and index it, time of a query in the engine and "
        "around it, and how it grows. Assumed: machines of 16 cores and 64 GB, a quarter of it free, with the codes "
        "and the patterns of their shards in memory; half a millisecond there and back, twice beyond 128 shards; one "
        "answer in a hundred ten times slower; a failure of each machine once a month, and shards read back at 500 MB "
        "a second. Another copy is asked once one has worked "
        "for longer than 95% of answers take. `told_to_retry` is the share of time in which some shard has no copy; "
        "`update_us` is what one more pattern costs, on one core for all copies; `rebuild_core_hours` what a new "
        "similarity does, as everything is lifted anew."
    ),
)
