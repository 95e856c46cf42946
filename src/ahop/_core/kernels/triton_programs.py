"""The programs that run on a GPU, in Triton. Imported only where Triton is.

One program compares one row with tiles of others and keeps the dimensions of a pair in its registers, where they are
sorted.
"""

from functools import partial
from typing import no_type_check

import triton
import triton.language as tl

# Sizes that change from call to call: Triton would compile anew for those that are one or a multiple of 16.
UNSPECIALIZED = ("batch", "count", "own_count", "others_count", "own_stride", "others_stride")

program = partial(triton.jit, do_not_specialize=UNSPECIALIZED)


@program
@no_type_check
def scores_program(
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


@program
@no_type_check
def weight_gradient_program(
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


@program
@no_type_check
def row_gradient_program(
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


@program
@no_type_check
def _numbers(first, COUNT: tl.constexpr):
    """So many numbers of rows. In 64 bits: a number of a row times its length may need more than 32."""
    return (first + tl.arange(0, COUNT)).to(tl.int64)


@program
@no_type_check
def _load(pointer, rows, count, dimensions, WIDTH: tl.constexpr):
    """The rows, with gaps wherever the tile is larger than the tensor."""
    lanes = tl.arange(0, WIDTH)[None, :]
    inside = (rows[:, None] < count) & (lanes < dimensions)
    return tl.load(pointer + rows[:, None] * dimensions + lanes, mask=inside, other=float("nan"))


@program
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


@program
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


@program
@no_type_check
def _filled(values):
    return tl.where(values == values, values, 0.0)


@program
@no_type_check
def _mean(values, shared):
    return (tl.sum(values, 1) / tl.maximum(shared, 1).to(values.dtype))[:, None]


@program
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


@program
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


@program
@no_type_check
def _places(keys, WIDTH: tl.constexpr):
    """Where each key stands in rising order. A key has 51 bits at most and a row 4096 keys: both share one number."""
    tl.static_assert(WIDTH <= 4096)
    lanes = tl.arange(0, WIDTH)[None, :]
    order = (tl.sort((keys << 12) | lanes) & 4095).to(tl.int32)
    return tl.sort((order << 12) | lanes) & 4095
