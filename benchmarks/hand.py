"""One query at a time: the memory beside its index, the usual engines, and the bare product."""

import time
from collections.abc import Callable, Iterator
from statistics import median

import faiss
import numpy as np
import torch
from sklearn.neighbors import NearestNeighbors
from torch import Tensor

import ahop
from ahop.similarities import (
    CosineSimilarity,
    EuclideanSimilarity,
    ManhattanSimilarity,
    PooledSimilarity,
    SorensenSimilarity,
)
from benchmarks._large import structured
from benchmarks._spectra import spectra_and_copies
from benchmarks._wifi import grown, places_and_scans

K = 3
TAUGHT = 4096  # patterns that the models of generated data are fitted to
GAPS = 0.1  # of all values, where there are gaps
CITY = 20_000
BATCH = 64  # queries that are asked at once
MOST_SLOWER = 1.15  # times as long as the memory itself; repeated measurements of one way differ by as much
MILLION = 1_000_000
# What a table of this many numbers costs the engines to build is not worth waiting for.
MOST_INDEXED = 64 * 200_000

Call = Callable[[int], object]


def measure(full: bool) -> dict[str, object]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    faiss.omp_set_num_threads(1)
    found: dict[str, object] = {"threads": 1, "k": K, "batch": BATCH}
    try:
        for name, memory, queries, metric in memories(full):
            found |= {f"{name}_{key}": value for key, value in of_memory(memory, queries, metric, full).items()}
    finally:
        torch.set_num_threads(threads)
    ratios = [float(str(ratio)) for name, ratio in found.items() if name.endswith("_to_memory")]
    found["index_never_slower"] = max(ratios) <= MOST_SLOWER
    return found


def memories(full: bool) -> Iterator[tuple[str, ahop.AssociativeMemory, Tensor, str | None]]:
    """Name, memory, queries, and what sklearn calls its metric."""
    places, pairs = places_and_scans(50)
    taught = ahop.Pairs(pairs.origins[:30], pairs.queries[:30])
    learned = ahop.fit(places, pairs=taught, progress=False)
    scans = pairs.queries[30:]
    yield "survey", learned, scans, None
    yield "city", ahop.AssociativeMemory(grown(places, CITY), model=learned.model), scans, None
    if full:
        yield "city_million", ahop.AssociativeMemory(grown(places, MILLION), model=learned.model), scans, None
    spectra, copies = spectra_and_copies()
    yield "near_infrared", ahop.fit(spectra, pairs=copies, progress=False), copies.queries[:20], None
    for count in (100_000, MILLION) if full else (CITY,):
        yield from of_generated(count, "" if count == 100_000 else f"_{count}")


def of_generated(count: int, ending: str) -> Iterator[tuple[str, ahop.AssociativeMemory, Tensor, str | None]]:
    patterns, variant = structured(count), ahop.MixedVariant(0.3, 0.3, 0.3)
    queries, some = variant.sample(patterns, 20, seed=2).queries, patterns[:TAUGHT]
    pairs = variant.sample(some, 512, seed=1)
    learned = {name: ahop.fit(some, pairs=pairs, similarity=name, progress=False) for name in ("mixture", "additive")}
    for name, each in learned.items():
        yield f"{name}{ending}", ahop.AssociativeMemory(patterns, model=each.model), queries, None
    pool = PooledSimilarity([*(each.similarity for each in learned.values()), EuclideanSimilarity()])
    pool.weights.copy_(torch.tensor([0.5, 0.3, 0.2]))
    model = learned["mixture"].model.replaced(similarity=pool)
    yield f"pool{ending}", ahop.AssociativeMemory(patterns, model=model), queries, None
    generator = torch.Generator().manual_seed(3)
    holed, holed_queries = (
        each.masked_fill(torch.rand(each.shape, generator=generator) < GAPS, torch.nan) for each in (patterns, queries)
    )
    plain = (
        ("euclidean", EuclideanSimilarity(), "euclidean"),
        ("cosine", CosineSimilarity(), "cosine"),
        ("manhattan", ManhattanSimilarity(), "manhattan"),
        ("sorensen", SorensenSimilarity(), "braycurtis"),
    )
    for name, similarity, metric in plain:
        yield f"{name}{ending}", ahop.AssociativeMemory(patterns, similarity), queries, metric
        yield f"{name}_gaps{ending}", ahop.AssociativeMemory(holed, similarity), holed_queries, None


def of_memory(memory: ahop.AssociativeMemory, queries: Tensor, metric: str | None, full: bool) -> dict[str, object]:
    """CPU milliseconds of one query by each contender; `ratio` is that of the memory to the product of its numbers."""
    asked = [query.unsqueeze(0) for query in queries]
    patterns = memory.patterns.nan_to_num(0)
    bare = [query.nan_to_num(0).squeeze(0) for query in asked]
    ways: dict[str, Call] = {
        "": lambda i: memory.recall(asked[i], k=K),
        "bare": lambda i: patterns @ bare[i],
    }
    ways |= {name: way for name, way in others(memory, patterns, queries, metric, full).items() if way is not None}
    repeats = 20 if full else 5
    cpu, wall = timed(ways, repeats)
    figures: dict[str, object] = {f"{name}_ms" if name else "ms": _rounded(seconds) for name, seconds in cpu.items()}
    figures |= {"wall_ms": _rounded(wall[""]), "ratio": round(cpu[""] / cpu["bare"], 2)}
    figures |= beside_index(memory, queries, repeats)
    torch.set_num_threads(2)
    figures["two_threads_wall_ms"] = _rounded(timed({"": ways[""]}, repeats)[1][""])
    torch.set_num_threads(1)
    return {"patterns": len(memory), "dimensions": memory.patterns.shape[1], **figures}


def beside_index(memory: ahop.AssociativeMemory, queries: Tensor, repeats: int) -> dict[str, object]:
    """One query and a batch by the index, and how many times as long as the memory itself takes."""
    found, rows = ahop.index(memory), torch.arange(BATCH) % len(queries)
    figures: dict[str, object] = {"index_kind": found.kind, "index_scanned": found.scanned}
    for ending, count, asked in (
        ("", 1, [query.unsqueeze(0) for query in queries]),
        ("_batch", BATCH, [queries[rows]] * repeats),
    ):
        ways: dict[str, Call] = {
            "own": lambda i, asked=asked: memory.recall(asked[i], k=K),  # type: ignore[misc]
            "index": lambda i, asked=asked: found.recall(asked[i], k=K),  # type: ignore[misc]
        }
        cpu = timed(ways, repeats)[0]
        figures[f"index{ending}_ms"] = _rounded(cpu["index"] / count)
        figures[f"own{ending}_ms"] = _rounded(cpu["own"] / count)
        figures[f"index{ending}_to_memory"] = round(cpu["index"] / cpu["own"], 2)
    return figures


def others(
    memory: ahop.AssociativeMemory, patterns: Tensor, queries: Tensor, metric: str | None, full: bool
) -> dict[str, Call | None]:
    """Engines; None for those that cannot answer."""
    arrays = [query[None].numpy() for query in queries]
    ways: dict[str, Call | None] = {}
    if patterns.numel() > MOST_INDEXED and not full:
        return ways
    flat = faiss.IndexFlatL2(patterns.shape[1])
    flat.add(patterns.numpy())
    ways["faiss"] = lambda i: flat.search(np.nan_to_num(arrays[i]), K)
    if metric is not None:
        near = NearestNeighbors(n_neighbors=K, algorithm="brute", metric=metric).fit(patterns.numpy())
        ways["sklearn"] = lambda i: near.kneighbors(arrays[i])
    return ways


def timed(ways: dict[str, Call], repeats: int) -> tuple[dict[str, float], dict[str, float]]:
    """Median seconds of CPU and of the clock, one query after the other, the contenders in turns."""
    cpu: dict[str, list[float]] = {name: [] for name in ways}
    wall: dict[str, list[float]] = {name: [] for name in ways}
    for way in ways.values():
        way(0)
    for repeat in range(repeats):
        for name, way in ways.items():
            started = time.process_time(), time.perf_counter()
            way(repeat)
            cpu[name].append(time.process_time() - started[0])
            wall[name].append(time.perf_counter() - started[1])
    return tuple({name: median(each) for name, each in found.items()} for found in (cpu, wall))  # type: ignore[return-value]


def _rounded(seconds: float) -> float:
    return float(f"{1e3 * seconds:.3g}")
