"""Footprint scores in blocks with numpy's SIMD sort, against `torch.sort` over all the pairs at once."""

from functools import partial

import torch
from torch import Tensor

import ahop
from benchmarks.measuring import medians


def measure(full: bool) -> dict[str, object]:
    result: dict[str, object] = {"threads": torch.get_num_threads()}
    for dimensions, count, batch in ((64, 4096, 16), (784, 1024, 8)):
        generator = torch.Generator().manual_seed(0)
        patterns = torch.rand(count, dimensions, generator=generator)
        queries = torch.rand(batch, dimensions, generator=generator)
        memory = ahop.zoo.a_hop(patterns)
        seconds = medians(
            {
                "ours": partial(memory.scores, queries),
                "torch": partial(sorted_by_torch, patterns, queries),
            },
            repeats=9 if full else 5,
        )
        torch.testing.assert_close(memory.scores(queries), sorted_by_torch(patterns, queries), rtol=1e-4, atol=1e-3)
        result[f"speedup_d{dimensions}"] = round(seconds["torch"] / seconds["ours"], 2)
        result[f"microseconds_a_pair_d{dimensions}"] = round(1e6 * seconds["ours"] / (count * batch), 3)
    return result


def sorted_by_torch(patterns: Tensor, queries: Tensor) -> Tensor:
    """The two footprints of A-Hop with unit rank weights, the plain way."""
    distances = -(queries.unsqueeze(1) - patterns).square()
    products = queries.unsqueeze(1) * patterns
    ones = torch.ones(patterns.shape[1])
    return sum(torch.sort(each, dim=-1, descending=True).values @ ones for each in (distances, products))  # type: ignore[return-value]
