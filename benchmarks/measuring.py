"""Timing that survives a noisy machine: contenders take turns, and medians are compared."""

import time
from collections.abc import Callable
from statistics import median
from typing import TypeVar

Result = TypeVar("Result")


def medians(contenders: dict[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    """Median seconds of each contender over interleaved repeats."""
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(repeats):
        for name, contender in contenders.items():
            started = time.perf_counter()
            contender()
            seconds[name].append(time.perf_counter() - started)
    return {name: median(values) for name, values in seconds.items()}


def timed(work: Callable[[], Result]) -> tuple[Result, float]:
    """What it gives, and how many seconds it took."""
    started = time.perf_counter()
    result = work()
    return result, time.perf_counter() - started
