"""What is measured on test queries."""

import time
from collections.abc import Callable
from statistics import mean

import torch
from torch import Tensor

import ahop
from ahop.paper.criteria import Retriever
from ahop.variants import Variant
from experiments.support.harness import Row

BINS = 15


def ceiling(patterns: Tensor, variant: Variant, pairs: ahop.Pairs) -> Row:
    """What the exact posterior reaches on the very queries that the models answer.

    `bayes` is the share of its first answers that are right, which no retrieval exceeds on average; `bayes_blend`
    counts as the paper does, the pattern nearest to the posterior mean.
    """
    exact = ahop.AssociativeMemory(patterns, ahop.likelihood.LikelihoodSimilarity(variant))
    outcome = ahop.evaluate(exact, pairs)
    return {"bayes": outcome.top1, "bayes_blend": outcome.accuracy}


def outcome_of(memory: Retriever, pairs: ahop.Pairs) -> Row:
    """`accuracy` as the paper counts, `top1` by the first answer, and the mean squared error per dimension."""
    outcome = ahop.evaluate(memory, pairs)
    return {"accuracy": outcome.accuracy, "top1": outcome.top1, "error": outcome.error}


def hit_rate(found: Tensor, origins: Tensor) -> float:
    return float((found == origins).double().mean())


def f1(linked: Tensor, origins: Tensor) -> float:
    """Of links to rows of the other table, -1 for none."""
    right = int(((linked == origins) & (linked >= 0)).sum())
    return 2 * right / max(1, int((linked >= 0).sum()) + int((origins >= 0).sum()))


def auroc(higher: Tensor, lower: Tensor) -> float:
    """How often one of `higher` lies above one of `lower`; a tie is half."""
    ordered = lower.double().sort().values
    below = torch.searchsorted(ordered, higher.double(), right=False)
    not_above = torch.searchsorted(ordered, higher.double(), right=True)
    return float((below + not_above).double().mean() / (2 * len(lower)))


def reliability(confidence: Tensor, right: Tensor) -> tuple[list[int], list[float], list[int]]:
    """For bins of equal width: how many queries, the sum of what was said, and how many were right."""
    place = (confidence.double() * BINS).long().clamp(0, BINS - 1)
    count = torch.bincount(place, minlength=BINS)
    said = torch.bincount(place, weights=confidence.double(), minlength=BINS)
    hits = torch.bincount(place[right], minlength=BINS)
    return count.tolist(), said.tolist(), hits.tolist()


def tallied(confidence: Tensor, right: Tensor, prefix: str = "") -> Row:
    """The same as lists of a row, for `tallies` to be added up over seeds."""
    count, said, hits = reliability(confidence, right)
    return {f"{prefix}count": count, f"{prefix}said": [round(total, 3) for total in said], f"{prefix}hits": hits}


def calibration_error(count: list[int], said: list[float], hits: list[int]) -> float:
    """Expected calibration error: what was said against what came true, bins weighted by their queries."""
    return sum(abs(total - right) for total, right in zip(said, hits, strict=True)) / max(1, sum(count))


def pooled_error(rows: list[Row], prefix: str = "") -> float | None:
    """The calibration error of the queries of all rows together; None where nothing was said."""
    count, said, hits = (
        [sum(places) for places in zip(*(row[f"{prefix}{part}"] for row in rows), strict=True)]
        for part in ("count", "said", "hits")
    )
    return round(calibration_error(count, said, hits), 5) if count else None


def mean_of(rows: list[Row], metric: str) -> float | None:
    """Over the rows that have it."""
    values = [row[metric] for row in rows if row.get(metric) is not None]
    return round(mean(values), 5) if values else None


def milliseconds(work: Callable[[], object], repeats: int = 3) -> float:
    """On one thread, the best of a few tries."""
    threads, seconds = torch.get_num_threads(), []
    torch.set_num_threads(1)
    try:
        for _ in range(repeats):
            started = time.perf_counter()
            work()
            seconds.append(time.perf_counter() - started)
    finally:
        torch.set_num_threads(threads)
    return 1000 * min(seconds)
