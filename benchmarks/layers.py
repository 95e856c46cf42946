"""Layers, forward and backward: M-Hop beside the attention of torch, adaptive ones beside their torch form."""

from collections.abc import Callable
from unittest.mock import patch

import torch
from torch import Tensor, nn

from ahop._core.kernels import native
from ahop.nn import Hopfield, HopfieldPooling, Layer
from benchmarks.measuring import medians

BATCH, HEADS, HEAD_SIZE, PATTERNS, QUERIES = 32, 8, 64, 128, 16
SIZE = HEADS * HEAD_SIZE


def measure(full: bool) -> dict[str, object]:
    kernels = native.compiled()
    if kernels is None:
        raise SystemExit("ahop was built without its kernels; there is nothing to measure.")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    result: dict[str, object] = {
        "instruction_set": kernels.instruction_sets()[0],
        "threads": 1,
        "batch": BATCH,
        "heads": HEADS,
        "head_size": HEAD_SIZE,
        "patterns": PATTERNS,
        "queries": QUERIES,
        **beside_attention(25 if full else 15),
        **beside_torch(5 if full else 3),
    }
    torch.set_num_threads(threads)
    return result


def beside_attention(repeats: int) -> dict[str, object]:
    """The same sizes, the same weights, no norms: self-association, padded or not, and torch without its weights."""
    attention = nn.MultiheadAttention(SIZE, HEADS, batch_first=True)
    layer = Hopfield(SIZE, HEADS, normalize=False)
    take_over(layer, attention)
    data = torch.randn(BATCH, PATTERNS, SIZE, requires_grad=True)
    present = torch.rand(BATCH, PATTERNS) < 0.8

    def by_torch(mask: Tensor | None) -> Tensor:
        answers, _ = attention(data, data, data, key_padding_mask=mask, need_weights=False)
        assert isinstance(answers, Tensor)
        return answers

    torch.testing.assert_close(layer(data), by_torch(None), rtol=1e-3, atol=1e-4)
    torch.testing.assert_close(layer(data, present=present), by_torch(~present), rtol=1e-3, atol=1e-4)
    seconds = medians(
        {
            "ours": lambda: both_ways(lambda: layer(data), layer),
            "torch": lambda: both_ways(lambda: by_torch(None), attention),
            "ours, padded": lambda: both_ways(lambda: layer(data, present=present), layer),
            "torch, padded": lambda: both_ways(lambda: by_torch(~present), attention),
        },
        repeats,
    )
    return {
        "mha_milliseconds": round(1e3 * seconds["ours"], 1),
        "mha_ratio": round(seconds["ours"] / seconds["torch"], 3),
        "mha_ratio_padded": round(seconds["ours, padded"] / seconds["torch, padded"], 3),
    }


def beside_torch(repeats: int) -> dict[str, object]:
    stored = torch.randn(BATCH, PATTERNS, SIZE, requires_grad=True)
    queries = torch.randn(BATCH, QUERIES, SIZE, requires_grad=True)
    layer = Hopfield(SIZE, HEADS, similarity="adaptive")
    pool = HopfieldPooling(SIZE, num_heads=HEADS, similarity="adaptive")
    return {
        **against_torch(layer, [queries, stored], "adaptive", repeats),
        **against_torch(pool, [stored], "adaptive_pooling", 3 * repeats),
    }


def against_torch(layer: Layer, inputs: list[Tensor], name: str, repeats: int) -> dict[str, object]:
    def by_kernels() -> Tensor:
        return layer(*inputs)

    def by_torch() -> Tensor:
        with patch.object(native, "native", None):
            return layer(*inputs)

    torch.testing.assert_close(by_kernels(), by_torch(), rtol=1e-3, atol=1e-4)
    seconds = medians(
        {"ours": lambda: both_ways(by_kernels, layer), "torch": lambda: both_ways(by_torch, layer)}, repeats
    )
    return {
        f"{name}_milliseconds": round(1e3 * seconds["ours"], 1),
        f"{name}_speedup": round(seconds["torch"] / seconds["ours"], 2),
    }


def both_ways(forward: Callable[[], Tensor], module: nn.Module) -> None:
    torch.autograd.backward(forward().sum())
    module.zero_grad()


def take_over(layer: Hopfield, attention: nn.MultiheadAttention) -> None:
    """The weights of torch's attention, in ours."""
    assert attention.in_proj_weight is not None
    projections = (layer.query_projection, layer.pattern_projection, layer.value_projection)
    with torch.no_grad():
        for projection, weight in zip(projections, attention.in_proj_weight.chunk(3), strict=True):
            projection.weight.copy_(weight)
        layer.output_projection.weight.copy_(attention.out_proj.weight)
