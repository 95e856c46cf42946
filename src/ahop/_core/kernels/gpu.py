r"""Footprints on a GPU, in Triton: what `plain` says, without ever holding all the pairs.

Here is what runs on the host; `triton_programs` run on the GPU. Every number of an output has one program that
writes it, so that the same data give the same bits.
"""

from collections.abc import Sequence
from functools import cache
from typing import Any

import torch
from torch import Tensor

from ahop._core.tensors import lowest

TILE = 1024  # numbers that a program holds of each kind, if a row is not longer
MOST_SHARES = 1024  # of a sum: enough to fill a large GPU, few enough to keep one partial sum each
MOST_GRID_ROWS = 65535  # on the second axis of a grid, by CUDA


@cache
def is_available() -> bool:
    """Whether Triton is installed. Asked for data on a GPU only: importing it takes a second."""
    try:
        import triton  # noqa: F401
    except ImportError:
        return False
    return True


def scores(patterns: Tensor, queries: Tensor, weights: Tensor, bases: Sequence[int]) -> Tensor:
    """Patterns (n, d); queries (k, b, d), as each base sees them; weights of the ranks (k, d) -> scores (b, n).

    Groups of them (g, ...) are taken one by one.
    """
    if patterns.ndim == 3:
        groups = [scores(*group, weights, bases) for group in zip(patterns, queries, strict=True)]
        return torch.stack(groups) if groups else patterns.new_empty(0, queries.shape[-2], patterns.shape[-2])
    patterns, queries, weights = _contiguous(patterns, queries, weights)
    (count, dimensions), batch = patterns.shape, queries.shape[1]
    out, tile = patterns.new_zeros(batch, count), _tile(count, dimensions)
    if out.numel() == 0:
        return out
    grid = (_tiles(count, tile), min(batch, MOST_GRID_ROWS))
    for base, asked, ranks in zip(bases, queries, weights, strict=True):
        arguments = (asked, queries[0], patterns, ranks, out, batch, count, dimensions)
        _launch("scores_program", grid, *arguments, **tile, BASE=base, LOWEST=lowest(out.dtype))
    return out


def weight_gradient(
    patterns: Tensor, queries: Tensor, weights: Tensor, bases: Sequence[int], gradient: Tensor
) -> Tensor:
    """The gradient (k, d) in the weights, from that in the scores (b, n)."""
    if patterns.ndim == 3:
        each = zip(patterns, queries, gradient, strict=True)
        return sum((weight_gradient(p, q, weights, bases, flow) for p, q, flow in each), torch.zeros_like(weights))
    patterns, queries, gradient = _contiguous(patterns, queries, gradient)
    (count, dimensions), batch = patterns.shape, queries.shape[1]
    if gradient.numel() == 0:
        return weights.new_zeros(weights.shape)
    tile = _tile(count, dimensions)
    across = min(_tiles(count, tile), MOST_SHARES)
    grid = (across, min(batch, MOST_SHARES // across))
    partial = patterns.new_empty(len(bases), grid[0] * grid[1], dimensions)
    for base, asked, out in zip(bases, queries, partial, strict=True):
        arguments = (asked, queries[0], patterns, gradient, out, batch, count, dimensions)
        _launch("weight_gradient_program", grid, *arguments, **tile, BASE=base)
    return partial.sum(1)


def data_gradient(
    patterns: Tensor, queries: Tensor, weights: Tensor, bases: Sequence[int], gradient: Tensor
) -> tuple[Tensor, Tensor]:
    """The gradients in the patterns (n, d) and in the queries (k, b, d), from that in the scores (b, n)."""
    if patterns.ndim == 3:
        whole = torch.zeros_like(patterns), torch.zeros_like(queries)
        for group, (stored, asked, flow) in enumerate(zip(patterns, queries, gradient, strict=True)):
            whole[0][group], whole[1][group] = data_gradient(stored, asked, weights, bases, flow)
        return whole
    patterns, queries, weights, gradient = _contiguous(patterns, queries, weights, gradient)
    to_patterns, to_queries = torch.zeros_like(patterns), torch.zeros_like(queries)
    if gradient.numel() == 0:
        return to_patterns, to_queries
    for number, (base, asked, ranks) in enumerate(zip(bases, queries, weights, strict=True)):
        # Every base is the same in both sides, so that one program serves for both.
        to_patterns += _row_gradient(patterns, patterns, asked, queries[0], ranks, base, gradient.mT)
        to_queries[number] = _row_gradient(asked, queries[0], patterns, patterns, ranks, base, gradient)
    return to_patterns, to_queries


def _row_gradient(
    own: Tensor, own_seen: Tensor, others: Tensor, others_seen: Tensor, ranks: Tensor, base: int, gradient: Tensor
) -> Tensor:
    """The gradient in the rows of one side, from that in the scores (own, others); NaN in `seen` is a gap."""
    (count, dimensions), tile = own.shape, _tile(len(others), own.shape[1])
    # Few rows would leave the GPU idle: then several programs share one, each with some of the others.
    shares = min(_tiles(len(others), tile), max(1, MOST_SHARES // count))
    partial = own.new_empty(shares, count, dimensions)
    arguments = (own, own_seen, others, others_seen, ranks, gradient, partial, count, len(others), dimensions)
    _launch("row_gradient_program", (count, shares), *arguments, *gradient.stride(), **tile, BASE=base)
    return partial.sum(0)


def _contiguous(*tensors: Tensor) -> list[Tensor]:
    return [each.detach().contiguous() for each in tensors]


def _tile(count: int, dimensions: int) -> dict[str, int]:
    """The shape of a tile, of so many rows at most, in powers of two as Triton wants them, and the warps for it."""
    width = max(2, _power_of_two(dimensions))
    rows = max(1, min(TILE // width, _power_of_two(count)))
    return {"ROWS": rows, "WIDTH": width, "num_warps": max(1, min(rows * width // 128, 16))}


def _tiles(count: int, tile: dict[str, int]) -> int:
    return -(-count // tile["ROWS"])


def _power_of_two(least: int) -> int:
    return 1 << (least - 1).bit_length()


def _launch(program: str, grid: tuple[int, int], first: Tensor, /, *others: Any, **constants: Any) -> None:
    from ahop._core.kernels import triton_programs  # not before a program is wanted: the package imports without Triton

    with torch.cuda.device_of(first):  # type: ignore[no-untyped-call] # Triton asks which GPU is current, not whose data
        getattr(triton_programs, program)[grid](first, *others, **constants)
