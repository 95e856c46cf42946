"""Scores of learned likelihoods: compiled, against their torch forms and against the matrix product of the tables."""

from unittest.mock import patch

import torch
from torch import Tensor

import ahop
from ahop._core.kernels import native
from ahop.similarities import AdditiveSimilarity
from ahop.similarities.additive import hats
from benchmarks.measuring import medians

COUNT, DIMENSIONS = 20_000, 64


def measure(full: bool) -> dict[str, object]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    patterns = 2 * torch.rand(COUNT, DIMENSIONS, generator=torch.Generator().manual_seed(0)) - 1
    variant = ahop.MixedVariant(0.4, 0.4, 0.4)
    pairs, test = variant.sample(patterns, 512), variant.sample(patterns, 64, seed=1).queries
    result: dict[str, object] = {"count": COUNT, "dimensions": DIMENSIONS, "threads": 1}
    for batch in (1, 64):
        queries = test[:batch]
        result |= {f"{name}_batch{batch}": value for name, value in mixture(patterns, pairs, queries, full).items()}
        result |= {f"{name}_batch{batch}": value for name, value in additive(patterns, pairs, queries, full).items()}
    torch.set_num_threads(threads)
    return result


def mixture(patterns: Tensor, pairs: ahop.Pairs, queries: Tensor, full: bool) -> dict[str, object]:
    memory = ahop.fit(patterns, pairs=pairs, similarity="mixture", progress=False).requires_grad_(False)
    seconds = against_torch(memory, queries, full)
    return {
        "mixture_nanoseconds_a_number": round(1e9 * seconds["ours"] / (queries.numel() * COUNT), 3),
        "mixture_speedup": round(seconds["torch"] / seconds["ours"], 2),
    }


def additive(patterns: Tensor, pairs: ahop.Pairs, queries: Tensor, full: bool) -> dict[str, object]:
    """The torch form writes each stored value as weights of its knots, then multiplies; that product is timed too."""
    memory = ahop.fit(patterns, pairs=pairs, similarity="additive", progress=False).requires_grad_(False)
    assert isinstance(memory.similarity, AdditiveSimilarity)
    stored = hats(memory.similarity.pattern_places, patterns).flatten(1).mT
    profiles = torch.rand(len(queries), len(stored))
    seconds = against_torch(memory, queries, full)
    bare = medians({"ours": lambda: memory.scores(queries), "matmul": lambda: profiles @ stored}, 15 if full else 5)
    return {
        "additive_speedup": round(seconds["torch"] / seconds["ours"], 2),
        "additive_ratio_to_matmul": round(bare["ours"] / bare["matmul"], 2),
    }


def against_torch(memory: ahop.AssociativeMemory, queries: Tensor, full: bool) -> dict[str, float]:
    def by_torch() -> Tensor:
        with patch.object(native, "native", None):
            return memory.scores(queries)

    torch.testing.assert_close(memory.scores(queries), by_torch(), rtol=1e-4, atol=1e-3)
    return medians({"ours": lambda: memory.scores(queries), "torch": by_torch}, 15 if full else 5)
