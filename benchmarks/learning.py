"""What learning costs: in CPU seconds, with many stored patterns, with groups, and beside a busy neighbor."""

import multiprocessing
import time
from collections.abc import Callable
from functools import partial
from statistics import median

import torch

import ahop
from benchmarks._wifi import places_and_scans
from benchmarks.measuring import medians

FEW, MANY, DIMENSIONS, PAIRS = 10_000, 1_000_000, 64, 512
STORED, WIDE, WIDE_PAIRS, MANY_PAIRS = 2048, 520, 300, 2000
GROUPS, REPEATS = 27, 3
VARIANT = ahop.MixedVariant(0.4, 0.4, 0.4)


def measure(full: bool) -> dict[str, object]:
    many = _patterns(MANY, DIMENSIONS)
    few = many[:FEW]
    pairs = VARIANT.sample(few, PAIRS)
    ahop.fit(few, pairs=pairs, similarity="mixture", progress=False)  # the first fit of a process also loads things
    seconds = medians(
        {
            "few": partial(ahop.fit, few, pairs=pairs, progress=False),
            "many": partial(ahop.fit, many, pairs=pairs, progress=False),
        },
        repeats=5 if full else 3,
    )
    wide, without = _of_wifi()
    return {
        "threads": torch.get_num_threads(),
        "pairs": PAIRS,
        "dimensions": DIMENSIONS,
        f"seconds_n{FEW}": round(seconds["few"], 2),
        f"seconds_n{MANY}": round(seconds["many"], 2),
        "ratio": round(seconds["many"] / seconds["few"], 3),
        "auto_cpu_s": _cpu_seconds(few[:STORED], VARIANT.sample(few[:STORED], PAIRS)),
        "wide_cpu_s": wide,
        "wide_without": without,
        "many_cpu_s": _cpu_of_many(),
        "groups_ratio": _groups_ratio(),
        "busy_ratio": _busy_ratio(few[:STORED]),
    }


def _patterns(count: int, dimensions: int) -> torch.Tensor:
    return 2 * torch.rand(count, dimensions, generator=torch.Generator().manual_seed(0)) - 1


def _cpu_seconds(patterns: torch.Tensor, pairs: ahop.Pairs) -> float:
    """The median on one thread."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return round(median(_cpu(partial(ahop.fit, patterns, pairs=pairs, progress=False)) for _ in range(REPEATS)), 2)
    finally:
        torch.set_num_threads(threads)


def _cpu(work: Callable[[], object]) -> float:
    started = time.process_time()
    work()
    return time.process_time() - started


def _of_wifi() -> tuple[float | None, str | None]:
    """CPU seconds, or why there are none."""
    try:
        patterns, pairs = places_and_scans(WIDE_PAIRS)
    except ahop.errors.AhopError as error:
        return None, str(error)
    return _cpu_seconds(patterns, pairs), None


def _cpu_of_many() -> float:
    patterns = _patterns(2 * MANY_PAIRS, WIDE)
    return _cpu_seconds(patterns, VARIANT.sample(patterns, MANY_PAIRS))


def _groups_ratio() -> float:
    """Wall time with as many groups as a survey has phones, over that with none."""
    patterns = _patterns(STORED, DIMENSIONS)
    pairs = VARIANT.sample(patterns, PAIRS)
    names = [str(number % GROUPS) for number in range(PAIRS)]
    seconds = medians(
        {
            "one": partial(ahop.fit, patterns, pairs=pairs, progress=False),
            "groups": partial(ahop.fit, patterns, pairs=pairs, groups=names, progress=False),
        },
        REPEATS,
    )
    return round(seconds["groups"] / seconds["one"], 2)


def _busy_ratio(patterns: torch.Tensor) -> float:
    """Wall time beside a process that never rests, over that alone."""
    work = partial(ahop.fit, patterns, pairs=VARIANT.sample(patterns, PAIRS), progress=False)
    alone = medians({"fit": work}, REPEATS)["fit"]
    neighbor = multiprocessing.get_context("spawn").Process(target=_never_rest, daemon=True)
    neighbor.start()
    try:
        return round(medians({"fit": work}, REPEATS)["fit"] / alone, 2)
    finally:
        neighbor.terminate()
        neighbor.join()


def _never_rest() -> None:
    while True:
        pass
