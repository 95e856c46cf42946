"""The compiled footprint against `torch.sort`, numpy's SIMD sort, and a bare scan of the same patterns."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

import numpy as np
import torch
from torch import Tensor

import ahop
from ahop._core.kernels import native
from ahop._core.kernels.rank_weighting import ranked_scores_plain
from benchmarks.measuring import medians

COUNT = 262_144
BASES = (ahop.EuclideanSimilarity(), ahop.DotSimilarity())


def measure(full: bool) -> dict[str, object]:
    kernels = native.compiled()
    if kernels is None:
        raise SystemExit("ahop was built without its kernels; there is nothing to measure.")
    result: dict[str, object] = {"instruction_set": kernels.instruction_sets()[0]}
    repeats = 9 if full else 5
    with threads(1):
        result |= one_query(64, COUNT, repeats, "")
        result |= one_query(784, COUNT // 4 if full else COUNT // 16, repeats, "_d784")
        result |= gradients(repeats)
        result |= fits(3 if full else 1)
    with threads(2):
        result |= many_queries(repeats)
    return result


def one_query(dimensions: int, count: int, repeats: int, suffix: str) -> dict[str, object]:
    memory, queries = problem(count, dimensions, 1)
    patterns, weights = memory.patterns, rank_weights(memory)
    memory.scores(queries)  # the first time packs the patterns
    seconds = medians(
        {
            "ours": lambda: memory.scores(queries),
            "torch": lambda: by_torch(patterns, queries, weights),
            "numpy": lambda: by_numpy(patterns, queries, weights),
            "matvec": lambda: torch.mv(patterns, queries[0]),
        },
        repeats,
    )
    # The short ones once more, without the large temporaries of the others between them.
    seconds |= medians(
        {"ours": lambda: memory.scores(queries), "matvec": lambda: torch.mv(patterns, queries[0])}, 5 * repeats
    )
    torch.testing.assert_close(memory.scores(queries), by_torch(patterns, queries, weights), rtol=1e-4, atol=1e-3)
    return {
        f"count{suffix}": count,
        f"milliseconds{suffix}": round(1e3 * seconds["ours"], 3),
        f"speedup_vs_torch{suffix}": round(seconds["torch"] / seconds["ours"], 2),
        f"speedup_vs_numpy{suffix}": round(seconds["numpy"] / seconds["ours"], 2),
        f"ratio_to_matvec{suffix}": round(seconds["ours"] / seconds["matvec"], 2),
    }


def many_queries(repeats: int) -> dict[str, object]:
    """Against a matrix product the ratio is large: four steps a pair are enough for it, two sorts take some 140."""
    memory, queries = problem(COUNT, 64, 64)
    transposed = memory.patterns.T
    recall = medians(
        {"ours": lambda: memory.recall(queries, k=100), "matmul": lambda: torch.mm(queries, transposed)},
        max(1, repeats // 3),
    )
    return {
        "batch": len(queries),
        "batch_threads": torch.get_num_threads(),
        "batch_ratio_to_matmul": round(recall["ours"] / recall["matmul"], 1),
        "peak_extra_bytes": peak_in_a_new_process(),
    }


def gradients(repeats: int) -> dict[str, object]:
    memory, queries = problem(2048, 64, 64)
    similarity, weights = memory.similarity, rank_weights(memory)
    leaves = [each.clone().requires_grad_() for each in (memory.patterns, queries)]
    flow = torch.rand(64, 2048)

    def ours() -> tuple[Tensor, ...]:
        return torch.autograd.grad(similarity(*leaves), leaves, flow)

    def plain() -> tuple[Tensor, ...]:
        return torch.autograd.grad(by_torch(leaves[0], leaves[1], weights), leaves, flow)

    for parameter in similarity.parameters():
        parameter.requires_grad_(False)
    for found, expected in zip(ours(), plain(), strict=True):
        torch.testing.assert_close(found.sum(-1), expected.sum(-1), rtol=1e-2, atol=1e-2)
    seconds = medians({"ours": ours, "torch": plain}, repeats)
    return {"backward_speedup": round(seconds["torch"] / seconds["ours"], 2)}


def fits(repeats: int) -> dict[str, object]:
    """The convex fit at difficulty .4 from 512 pairs: with the kernels, with numpy's sort, and with `torch.sort`."""
    patterns = 2 * torch.rand(2048, 64, generator=torch.Generator().manual_seed(0)) - 1
    pairs = ahop.MixedVariant(0.4, 0.4, 0.4, signs="per_query").sample(patterns, 512, seed=1)
    memory = ahop.zoo.a_hop(patterns)

    def fit() -> None:
        ahop.fit(memory, pairs=pairs, progress=False)

    def fit_by_numpy() -> None:
        with patch.object(native, "native", None):
            fit()

    def fit_by_torch() -> None:
        places = ("ahop._core.kernels.rank_weighting.sort_ascending_", "ahop.similarities.footprint.sort_ascending_")
        with patch(places[0], sort_by_torch), patch(places[1], sort_by_torch):
            fit_by_numpy()

    fit()
    seconds = medians({"ours": fit, "numpy": fit_by_numpy, "torch": fit_by_torch}, repeats)
    return {
        "fit_seconds": round(seconds["ours"], 2),
        "fit_speedup": round(seconds["torch"] / seconds["ours"], 2),
        "fit_speedup_vs_numpy": round(seconds["numpy"] / seconds["ours"], 2),
    }


def problem(count: int, dimensions: int, batch: int) -> tuple[ahop.AssociativeMemory, Tensor]:
    generator = torch.Generator().manual_seed(0)
    patterns = torch.rand(count, dimensions, generator=generator)
    memory = ahop.zoo.a_hop(patterns).requires_grad_(False)
    return memory, torch.rand(batch, dimensions, generator=generator)


def rank_weights(memory: ahop.AssociativeMemory) -> Tensor:
    assert isinstance(memory.similarity, ahop.AdaptiveSimilarity)
    return memory.similarity.coefficients.detach().view(len(BASES), -1)


def by_torch(patterns: Tensor, queries: Tensor, weights: Tensor) -> Tensor:
    """The two footprints of A-Hop the plain way."""
    values = zip(weights, (base.per_dimension(patterns, queries) for base in BASES), strict=True)
    return sum((ranked_scores_plain(u, each) for u, each in values), start=torch.zeros(()))


def by_numpy(patterns: Tensor, queries: Tensor, weights: Tensor) -> Tensor:
    """The fastest plain form: numpy's SIMD sort in place, then a matrix product."""
    total = torch.zeros(())
    for base, u in zip(BASES, weights, strict=True):
        values = base.per_dimension(patterns, queries)
        rows = values.numpy().reshape(-1, values.shape[-1])
        rows.sort(axis=-1)
        total = total + torch.from_numpy(np.asarray(rows @ u.flip(-1).numpy())).view(len(queries), -1)
    return total


def sort_by_torch(values: Tensor) -> Tensor:
    return values.copy_(torch.sort(values, dim=-1).values)


@contextmanager
def threads(count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    yield
    torch.set_num_threads(before)


def peak_in_a_new_process() -> int:
    """Of the first recall there is: what others have freed would be used again and hide it."""
    code = "from benchmarks.footprint import peak_of_recall; print(peak_of_recall())"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return int(run.stdout)


def peak_of_recall() -> int:
    memory, queries = problem(COUNT, 64, 64)
    return peak_bytes_of(lambda: memory.recall(queries, k=100))


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def peak_bytes_of(work: Callable[[], object]) -> int:
    """By how much the resident memory grew at its highest; Linux forgets its peak when asked to."""
    before = resident_bytes()
    Path("/proc/self/clear_refs").write_text("5")
    work()
    lines = Path("/proc/self/status").read_text().splitlines()
    highest = next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))
    return highest * 1024 - before
