r"""Footprints on a GPU, in Triton: what `plain` says, without ever holding all the pairs.

One program compares one row with tiles of others and keeps the dimensions of a pair in its registers, where they are
sorted. Every number of an output has one program that writes it, so that the same data give the same bits.
"""

# The programs are annotated by names of Triton, which is not there when they are defined.
from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, no_type_check

import torch
from torch import Tensor

from ahop._tensors import lowest

TILE = 1024  # numbers that a program holds of each kind, if a row is not longer
MOST_SHARES = 1024  # of a sum: enough to fill a large GPU, few enough to keep one partial sum each
MOST_GRID_ROWS = 65535  # on the second axis of a grid, by CUDA

# Sizes that change from call to call: Triton would compile anew for those that are one or a multiple of 16.
_UNSPECIALIZED = ("batch", "count", "own_count", "others_count", "own_stride", "others_stride")

_functions: list[Any] = []
tl: Any = None  # `triton.language`, once a program is wanted


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
        _launch("_scores_program", grid, *arguments, **tile, BASE=base, LOWEST=lowest(out.dtype))
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
        _launch("_weight_gradient_program", grid, *arguments, **tile, BASE=base)
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
    _launch("_row_gradient_program", (count, shares), *arguments, *gradient.stride(), **tile, BASE=base)
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
    _hand_over_to_triton()
    with torch.cuda.device_of(first):  # type: ignore[no-untyped-call] # Triton asks which GPU is current, not whose data
        globals()[program][grid](first, *others, **constants)


@cache
def _hand_over_to_triton() -> None:
    """Turn the functions below into programs. Not before they are wanted: the package must import without Triton."""
    import triton

    names = globals()
    names["tl"] = triton.language
    for function in _functions:
        names[function.__name__] = triton.jit(function, do_not_specialize=_UNSPECIALIZED)


def _program(function: Any) -> Any:
    _functions.append(function)
    return function


@_program
@no_type_check
def _scores_program(
    queries,
    queries_seen,
    patterns,
    weights,
    scores,
    batch,
    count,
    dimensions,
    BASE: tl.constexpr,
    LOWEST: tl.constexpr,
    ROWS: tl.constexpr,
    WIDTH: tl.constexpr,
):
    rows = _numbers(tl.program_id(0) * ROWS, ROWS)
    stored = _load(patterns, rows, count, dimensions, WIDTH)
    lanes = tl.arange(0, WIDTH)
    ranks = tl.load(weights + lanes, mask=lanes < dimensions, other=0.0)
    for query in range(tl.program_id(1), batch, tl.num_programs(1)):
        row = _numbers(query, 1)
        asked = _load(queries, row, batch, dimensions, WIDTH)
        asked_seen = _load(queries_seen, row, batch, dimensions, WIDTH)
        values, _, shared = _compare(asked, asked_seen, stored, stored, BASE)
        places = scores + row * count + rows
        result = tl.load(places, mask=rows < count, other=0.0)  # of the bases before this one
        result += tl.sum(_descending(values, dimensions, WIDTH) * ranks[None, :], 1)
        tl.store(places, tl.where(shared > 0, result, LOWEST), mask=rows < count)


@_program
@no_type_check
def _weight_gradient_program(
    queries,
    queries_seen,
    patterns,
    gradient,
    partial,
    batch,
    count,
    dimensions,
    BASE: tl.constexpr,
    ROWS: tl.constexpr,
    WIDTH: tl.constexpr,
):
    total = tl.zeros([WIDTH], dtype=partial.dtype.element_ty)
    for query in range(tl.program_id(1), batch, tl.num_programs(1)):
        row = _numbers(query, 1)
        asked = _load(queries, row, batch, dimensions, WIDTH)
        asked_seen = _load(queries_seen, row, batch, dimensions, WIDTH)
        for tile in range(tl.program_id(0), tl.cdiv(count, ROWS), tl.num_programs(0)):
            rows = _numbers(tile * ROWS, ROWS)
            stored = _load(patterns, rows, count, dimensions, WIDTH)
            values, _, shared = _compare(asked, asked_seen, stored, stored, BASE)
            # A row beyond the last shares no dimension either, so this keeps within the tensor.
            slopes = tl.load(gradient + row * count + rows, mask=shared > 0, other=0.0)
            total += tl.sum(_descending(values, dimensions, WIDTH) * slopes[:, None], 0)
    lanes = tl.arange(0, WIDTH)
    place = tl.program_id(1) * tl.num_programs(0) + tl.program_id(0)
    tl.store(partial + place * dimensions + lanes, total, mask=lanes < dimensions)


@_program
@no_type_check
def _row_gradient_program(
    own,
    own_seen,
    others,
    others_seen,
    weights,
    gradient,
    partial,
    own_count,
    others_count,
    dimensions,
    own_stride,
    others_stride,
    BASE: tl.constexpr,
    ROWS: tl.constexpr,
    WIDTH: tl.constexpr,
):
    row = _numbers(tl.program_id(0), 1)
    near = _load(own, row, own_count, dimensions, WIDTH)
    near_seen = _load(own_seen, row, own_count, dimensions, WIDTH)
    lanes = tl.arange(0, WIDTH)[None, :]
    total = tl.zeros([1, WIDTH], dtype=partial.dtype.element_ty)
    for tile in range(tl.program_id(1), tl.cdiv(others_count, ROWS), tl.num_programs(1)):
        rows = _numbers(tile * ROWS, ROWS)
        far = _load(others, rows, others_count, dimensions, WIDTH)
        far_seen = _load(others_seen, rows, others_count, dimensions, WIDTH)
        values, seen, shared = _compare(near, near_seen, far, far_seen, BASE)
        counts = tl.load(weights + _ranks(values, dimensions, WIDTH), mask=lanes < dimensions, other=0.0)
        # What the gaps count goes evenly to the dimensions that their mean is made of.
        counts += _mean(tl.where(seen, 0.0, counts), shared)
        slopes = tl.load(gradient + row * own_stride + rows * others_stride, mask=shared > 0, other=0.0)
        parts = slopes[:, None] * counts * _slope(near, far, BASE)
        total += tl.sum(tl.where(seen, parts, 0.0), 0)[None, :]
    place = _numbers(tl.program_id(1), 1) * own_count + row
    total = tl.where(near == near, total, 0.0)
    tl.store(partial + place[:, None] * dimensions + lanes, total, mask=lanes < dimensions)


@_program
@no_type_check
def _numbers(first, COUNT: tl.constexpr):
    """So many numbers of rows. In 64 bits: a number of a row times its length may need more than 32."""
    return (first + tl.arange(0, COUNT)).to(tl.int64)


@_program
@no_type_check
def _load(pointer, rows, count, dimensions, WIDTH: tl.constexpr):
    """The rows, with gaps wherever the tile is larger than the tensor."""
    lanes = tl.arange(0, WIDTH)[None, :]
    inside = (rows[:, None] < count) & (lanes < dimensions)
    return tl.load(pointer + rows[:, None] * dimensions + lanes, mask=inside, other=float("nan"))


@_program
@no_type_check
def _compare(near, near_seen, far, far_seen, BASE: tl.constexpr):
    """The values of each pair, the mean of the others in a gap; where there is none; how many dimensions are shared."""
    seen = (near_seen == near_seen) & (far_seen == far_seen)
    near, far = _filled(near), _filled(far)
    if BASE == 0:
        values = -(near - far) * (near - far)
    elif BASE == 1:
        values = near * far
    else:
        values = -tl.abs(near - far)
    values = tl.where(seen, values, 0.0)
    shared = tl.sum(seen.to(tl.int32), 1)
    return tl.where(seen, values, _mean(values, shared)), seen, shared


@_program
@no_type_check
def _slope(near, far, BASE: tl.constexpr):
    """The derivative of each value in the near side."""
    near, far = _filled(near), _filled(far)
    if BASE == 0:
        slope = 2.0 * (far - near)
    elif BASE == 1:
        slope = far
    else:
        slope = (far > near).to(near.dtype) - (far < near).to(near.dtype)
    return slope


@_program
@no_type_check
def _filled(values):
    return tl.where(values == values, values, 0.0)


@_program
@no_type_check
def _mean(values, shared):
    return (tl.sum(values, 1) / tl.maximum(shared, 1).to(values.dtype))[:, None]


@_program
@no_type_check
def _descending(values, dimensions, WIDTH: tl.constexpr):
    """The values of each pair in falling order, NaN first as in torch; zero in the padding."""
    inside = tl.arange(0, WIDTH)[None, :] < dimensions
    values = tl.where(inside, values, float("-inf"))
    # A network of comparisons loses NaN, so they are counted and put back.
    undefined = tl.sum((values != values).to(tl.int32), 1)[:, None]
    values = tl.sort(tl.where(values == values, values, float("inf")), descending=True)
    values = tl.where(tl.arange(0, WIDTH)[None, :] < undefined, float("nan"), values)
    return tl.where(inside, values, 0.0)


@_program
@no_type_check
def _ranks(values, dimensions, WIDTH: tl.constexpr):
    """Where each value of a pair stands in falling order, the first of equals first; the padding comes last."""
    values = tl.where(tl.arange(0, WIDTH)[None, :] < dimensions, values, float("-inf"))
    values = tl.where(values == values, values, float("inf"))
    # The bits of a float, read as a whole number, rise with it if it is positive, and with its size if it is not.
    if values.dtype == tl.float32:
        bits = values.to(tl.int32, bitcast=True)
        falling = tl.where(bits < 0, tl.abs(values).to(tl.int32, bitcast=True), ~bits).to(tl.int64)
        ranks = _places(falling, WIDTH)
    else:
        bits = values.to(tl.int64, bitcast=True)
        falling = tl.where(bits < 0, tl.abs(values).to(tl.int64, bitcast=True), ~bits)
        # Too many bits for one sort: first the lower half, then the upper half with what came of the lower one.
        ranks = _places(((falling >> 32) << 12) | _places(falling & 0xFFFFFFFF, WIDTH), WIDTH)
    return ranks


@_program
@no_type_check
def _places(keys, WIDTH: tl.constexpr):
    """Where each key stands in rising order. A key has 51 bits at most and a row 4096 keys: both share one number."""
    tl.static_assert(WIDTH <= 4096)
    lanes = tl.arange(0, WIDTH)[None, :]
    order = (tl.sort((keys << 12) | lanes) & 4095).to(tl.int32)
    return tl.sort((order << 12) | lanes) & 4095
