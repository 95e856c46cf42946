"""A million patterns, by what was learned: exhaustive and indexed recall beside the bare engines they stand on."""

import json
import os
import subprocess
import sys
from collections.abc import Callable

import torch
from torch import Tensor

import ahop
from ahop import lift
from ahop.scale.indexes import Engine, ExactEngine, Index, lifted, tune
from benchmarks._growth import growth
from benchmarks._large import CANDIDATES, DIMENSIONS, PAIRS, QUERIES, index_bytes, structured, uniform
from benchmarks.footprint import threads
from benchmarks.measuring import medians, timed

COUNT = 1_000_000
# Of the origins that an exhaustive search finds, the share that an index must bring: more than the .99 to be shown, as
# 256 queries tell it no better than that.
# Rows and columns of one block of the bare matrix product, as the exact engine has them.
ROWS, COLUMNS = 128, 32768
TARGET = 0.995
# Rows that are added to tell what adding one costs.
ADDED = 10_000


def measure(full: bool) -> dict[str, object]:
    """In a process of its own, whose threads sleep while they wait: torch and FAISS each have a pool of them, and one
    that spins takes the cores from the other.
    """
    code = f"import json; from benchmarks.scale import measured; print(json.dumps(measured({full}, {COUNT})))"
    calm = {**os.environ, "OMP_WAIT_POLICY": "PASSIVE"}
    run = subprocess.run([sys.executable, "-c", code], env=calm, stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, object] = json.loads(run.stdout.splitlines()[-1])
    return found


def measured(full: bool, count: int) -> dict[str, object]:
    result: dict[str, object] = {"count": count, "dimensions": DIMENSIONS, "pairs": PAIRS, "queries": QUERIES}
    with threads(2):
        result["threads"] = torch.get_num_threads()
        for name, make in (("structured", structured), ("uniform", uniform)):
            result[name] = of_patterns(make(count), full)
        if full:
            result["growth"] = growth()
    return result


def of_patterns(patterns: Tensor, full: bool) -> dict[str, object]:
    variant = ahop.MixedVariant(0.3, 0.3, 0.3)
    pairs, test = variant.sample(patterns, PAIRS, seed=1), variant.sample(patterns, QUERIES, seed=2)
    memory = ahop.fit(patterns, pairs=pairs, similarity="mixture", progress=False)
    lifting, seconds_to_lift = timed(lambda: lift(memory.similarity, patterns, pairs.queries))
    vectors, seconds_to_lift_all = timed(lambda: lifted(memory, lifting))
    asked = lifting.lift_queries(test.queries)

    whole = Index(memory, lifting, ExactEngine(vectors), CANDIDATES)
    repeats = 3 if full else 1
    bare_scan(vectors, asked[:8])
    answers: list[ahop.Recall[Tensor]] = []
    contenders: dict[str, Callable[[], object]] = {
        "bare": lambda: bare_scan(vectors, asked),
        "exact": lambda: answers.append(whole.recall(test.queries)),
    }
    slow, exact = medians(contenders, repeats), answers[0]
    euclid = lift(ahop.EuclideanSimilarity(), patterns)
    plain = ExactEngine(euclid.lift_patterns(patterns))  # no setting of an engine finds more on raw vectors
    top1_plain = plain.search(euclid.lift_queries(test.queries), 1).indices[:, 0]

    few = {} if full else {"kinds": ("scan", "ivf_pq"), "geometries": ("augmented",)}
    found, seconds_to_tune = timed(lambda: tune(memory, pairs, target=TARGET, candidates=CANDIDATES, **few))  # type: ignore[arg-type]
    engine, found.scanned = found.engine, 0  # what the engine does, whatever is faster here
    assert engine is not None
    indexed = found.recall(test.queries)
    quick = medians({"bare": lambda: engine.search(asked, CANDIDATES), "ours": lambda: found.recall(test.queries)}, 5)
    right = {
        name: _right(rows, test.origins) for name, rows in (("exact", exact.indices), ("indexed", indexed.indices))
    }
    errors = [
        _calibration_error(each.posterior[:, 0], ok) for each, ok in zip((exact, indexed), right.values(), strict=True)
    ]
    agree = exact.indices[:, 0] == indexed.indices[:, 0]
    difference = (exact.posterior - indexed.posterior)[agree].abs().mean()
    top1_exact, top1_indexed = (float(each.double().mean()) for each in right.values())
    return {
        "lifted_dimensions": lifting.size,
        "lifting_rms_error": round(lifting.rms_error, 3),
        "top1_exact": round(top1_exact, 3),
        "top1_indexed": round(top1_indexed, 3),
        "top1_indexed_share": round(top1_indexed / top1_exact, 4),
        "top1_plain": round(float((top1_plain == test.origins).double().mean()), 3),
        "engine": " ".join(f"{key}={value}" for key, value in engine.settings().items()),
        "time_ratio_to_bare": round(quick["ours"] / quick["bare"], 2),
        "exact_ratio_to_matmul": round(slow["exact"] / slow["bare"], 2),
        "scan_ratio_to_matmul": round(quick["ours"] / slow["bare"], 3),
        "calibration_error_exact": round(errors[0], 4),
        "calibration_error_indexed": round(errors[1], 4),
        "posterior_difference": round(float(difference), 4),
        "queries_a_second_exact": round(QUERIES / slow["exact"]),
        "queries_a_second_indexed": round(QUERIES / quick["ours"]),
        "seconds_to_lift": round(seconds_to_lift + seconds_to_lift_all, 1),
        "seconds_to_tune": round(seconds_to_tune, 1),
        **constants(engine, vectors, quick, seconds_to_lift_all),
        "curve": [
            f"{each.kind} {each.geometry} {each.rows} effort {each.effort}: {each.hit:.3f}" for each in found.curve
        ],
    }


def constants(
    engine: Engine, vectors: Tensor, quick: dict[str, float], seconds_to_lift_all: float
) -> dict[str, object]:
    """What one row and one query cost, for a model of larger ones."""
    some = vectors[:ADDED]
    before = index_bytes(engine)
    _, seconds_to_add = timed(lambda: engine.add(some))
    return {
        "bytes_a_row": round(before / len(vectors), 1),
        "microseconds_a_row_to_lift": round(1e6 * seconds_to_lift_all / len(vectors), 2),
        "microseconds_a_row_to_add": round(1e6 * seconds_to_add / len(some), 2),
        "microseconds_a_query_in_the_engine": round(1e6 * quick["bare"] / QUERIES, 1),
        "microseconds_a_query_around_it": round(1e6 * (quick["ours"] - quick["bare"]) / QUERIES, 1),
    }


def bare_scan(vectors: Tensor, queries: Tensor) -> Tensor:
    """What anybody would write: matrix products in blocks, and the best of each and of all."""
    best = []
    for row in range(0, len(queries), ROWS):
        parts = [
            (queries[row : row + ROWS] @ vectors[column : column + COLUMNS].T).topk(CANDIDATES)
            for column in range(0, len(vectors), COLUMNS)
        ]
        values, places = (torch.cat([getattr(part, name) for part in parts], -1) for name in ("values", "indices"))
        best.append(places.gather(-1, values.topk(CANDIDATES).indices))
    return torch.cat(best)


def _right(indices: Tensor, origins: Tensor) -> Tensor:
    return indices[:, 0] == origins


def _calibration_error(posterior: Tensor, right: Tensor) -> float:
    """Expected calibration error over ten bins."""
    bins = (10 * posterior.double()).long().clamp(0, 9)
    error = 0.0
    for number in range(10):
        here = bins == number
        if bool(here.any()):
            error += float(here.double().mean()) * abs(
                float(posterior[here].double().mean() - right[here].double().mean())
            )
    return error
