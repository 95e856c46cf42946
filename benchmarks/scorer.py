"""One scan at a time on one thread: the exported scorer, numpy alone, beside the memory that it was made of."""

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from torch import Tensor

import ahop
from ahop.runtime.scorer import Scorer
from benchmarks._wifi import places_and_scans

# What `auto` may choose among here, for the scorer to know it.
EXPORTED = ["mixture", "additive", "debiased", "euclidean", "heard_sorensen", "powed_sorensen", "powed_cosine"]
PAIRS, ASKED, FEW, MANY = 30, 20, 5, 20_000


def measure(full: bool) -> dict[str, object]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    places, pairs = places_and_scans(PAIRS + ASKED)
    taught = ahop.Pairs(pairs.origins[:PAIRS], pairs.queries[:PAIRS])
    learned = ahop.fit(places, pairs=taught, similarity=EXPORTED, progress=False)
    scans = pairs.queries[PAIRS:]
    result: dict[str, object] = {"threads": 1, "chosen": str(getattr(learned.report, "chosen", ""))}
    result["survey"] = of_memory(learned, scans)
    if full:
        result["many"] = of_memory(ahop.AssociativeMemory(_grown(places), model=learned.model), scans[:FEW])
    torch.set_num_threads(threads)
    return result


def of_memory(memory: ahop.AssociativeMemory, scans: Tensor) -> dict[str, object]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "places.npz"
        memory.export(path)
        scorer, size = Scorer(path), path.stat().st_size
    arrays = [scan[None].numpy() for scan in scans]
    found, expected = [scorer.recall(scan, k=3) for scan in arrays], [memory.recall(scan, k=3) for scan in arrays]
    apart = [np.abs(ours.posterior - theirs.posterior).max() for ours, theirs in zip(found, expected, strict=True)]
    ours, theirs = _cpu_seconds(scorer.recall, arrays), _cpu_seconds(memory.recall, arrays)
    return {
        "patterns": len(memory),
        "dimensions": memory.patterns.shape[1],
        "file_mb": round(size / 1e6, 2),
        "largest_difference_of_posteriors": float(f"{max(apart):.2g}"),
        "scorer_cpu_ms": round(1e3 * median(ours), 2),
        "memory_cpu_ms": round(1e3 * median(theirs), 2),
        "scorer_slowest_ms": round(1e3 * max(ours), 2),
    }


def _cpu_seconds(recall: Callable[..., object], scans: list[Any]) -> list[float]:
    """Of one scan after the other."""
    seconds = []
    for scan in scans:
        started = time.process_time()
        recall(scan, k=3)
        seconds.append(time.process_time() - started)
    return seconds


def _grown(places: Tensor) -> Tensor:
    """As many places as a city has, each like one of the survey with other strengths."""
    rows = torch.arange(MANY) % len(places)
    return places[rows] + 3 * torch.randn(MANY, places.shape[1], generator=torch.Generator().manual_seed(0))
