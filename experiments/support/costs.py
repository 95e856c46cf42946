"""What rows, queries, shards and machines cost: measured figures, and what is assumed about machines."""

import json
from dataclasses import dataclass

from experiments.support.harness import RESULTS

# Assumed: a machine of a cloud, its share of memory that is left free, and a network within one building.
CORES, MEMORY_BYTES, FREE_SHARE = 16, 64e9, 0.25
ROUND_TRIP_SECONDS = 0.5e-3
# Assumed: of a hundred answers one takes ten times as long, as disks, neighbors and collectors of garbage have it.
SLOW_SHARE, SLOW_FACTOR, JITTER = 0.01, 10.0, 0.1
# Assumed: a machine fails once a month, and a shard is read back at this speed.
SECONDS_BETWEEN_FAILURES, READ_BYTES_A_SECOND = 30 * 86400.0, 500e6
# One machine asks this many others and merges what they say; more are asked through a second floor.
FAN_OUT = 128
# Measured with so many threads; a core of its own takes as many times longer.
THREADS = 2


@dataclass(frozen=True)
class Costs:
    """Of one row and of one query, in seconds of one core and in bytes."""

    index_bytes: float
    pattern_bytes: float
    seconds_to_index: float
    seconds_in_engine: float
    seconds_around: float
    measured_rows: int
    growth: float

    def seconds_to_answer(self, rows: float) -> float:
        """A query on a shard of so many rows, by one core."""
        return float(self.seconds_in_engine * (rows / self.measured_rows) ** self.growth + self.seconds_around)

    def shards_a_machine(self, rows: float) -> int:
        """As memory for codes and patterns allows, where they were when it was measured, and no more than cores."""
        row_bytes = self.index_bytes + self.pattern_bytes
        return max(1, min(CORES, int((1 - FREE_SHARE) * MEMORY_BYTES / (row_bytes * rows))))


def measured_costs() -> Costs:
    """From the result file of `python -m benchmarks scale --full --save`."""
    figures = json.loads((RESULTS / "benchmark_scale.json").read_text())["figures"]
    found = figures["structured"]
    indexing = found["microseconds_a_row_to_lift"] + found["microseconds_a_row_to_add"]
    return Costs(
        index_bytes=found["bytes_a_row"],
        pattern_bytes=4 * figures["dimensions"],
        seconds_to_index=THREADS * 1e-6 * indexing,
        seconds_in_engine=THREADS * 1e-6 * found["microseconds_a_query_in_the_engine"],
        seconds_around=THREADS * 1e-6 * found["microseconds_a_query_around_it"],
        measured_rows=figures["count"],
        growth=figures.get("growth", {"growth_exponent": 1.0})["growth_exponent"],
    )
