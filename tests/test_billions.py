"""The simulated cluster obeys what is known of queues, and more copies never make it slower."""

import numpy as np
import pytest
from experiments.claims.billions import COUNTS, LOAD, latencies, run, unanswerable
from experiments.support.costs import JITTER, ROUND_TRIP_SECONDS, SLOW_FACTOR, SLOW_SHARE, measured_costs


def simulated(shards: int, copies: int, hedged: bool = False, queries: int = 20_000) -> np.ndarray:
    return latencies(1.0, np.ones((shards, copies), dtype=bool), hedged, queries, np.random.default_rng(0))


def test_one_copy_waits_as_theory_says() -> None:
    # Queries that come at random to one server: the formula of Pollaczek and Khinchine.
    slow = np.array([1 - SLOW_SHARE, SLOW_SHARE]), np.array([1.0, SLOW_FACTOR])
    first, second = ((slow[0] * slow[1] ** power).sum() * np.exp((power * JITTER) ** 2 / 2) for power in (1, 2))
    expected = first + LOAD * second / (2 * (1 - LOAD * first))
    found = simulated(1, 1, queries=400_000) - ROUND_TRIP_SECONDS
    assert found.mean() == pytest.approx(expected, rel=0.02)


def test_copies_help_and_asking_again_helps_more() -> None:
    late = {
        (copies, hedged): np.quantile(simulated(8, copies, hedged), 0.99)
        for copies, hedged in ((1, False), (2, False), (2, True), (3, True))
    }
    assert late[3, True] < late[2, True] < late[2, False] < late[1, False]


def test_more_shards_meet_more_slow_answers() -> None:
    middles = [np.median(simulated(shards, 2)) for shards in (1, 8, 64)]
    assert middles == sorted(middles)
    # Of 64 answers one is slow more often than not, and the query waits for it.
    assert middles[-1] > 2 * middles[0]


@pytest.mark.parametrize("count", COUNTS[:4])
def test_a_lost_machine_is_felt_and_a_lost_shard_is_rare(count: int) -> None:
    rows = {
        setting: run({"patterns": count, "setting": setting, "seed": 0}, quick=True)[0]
        for setting in ("one copy", "three, asked again when slow", "the same, one machine lost")
    }
    whole, lost = rows["three, asked again when slow"], rows["the same, one machine lost"]
    assert lost["p99_ms"] >= whole["p99_ms"]
    assert whole["machines"] >= 3
    assert whole["told_to_retry"] <= rows["one copy"]["told_to_retry"] < 0.01


def test_all_that_a_machine_holds_fits_its_memory() -> None:
    costs = measured_costs()
    for rows in (1e5, 1e6, 25e6):
        shards = costs.shards_a_machine(rows)
        assert 1 <= shards <= 16
        assert shards * rows * (costs.index_bytes + costs.pattern_bytes) <= 64e9
    assert unanswerable(costs, 25e6, 4000, 1) > unanswerable(costs, 25e6, 40, 1) > unanswerable(costs, 25e6, 40, 2)
