"""Patterns in the order that the kernels read them: in blocks, dimension by dimension, one lane a pattern.

Blocks belong to a tensor that someone wants to keep them for, as a memory does; all others are read in place. A tensor
made by `grown` or `taken` keeps the blocks of the one it came from.
"""

from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

from ahop.kernels.native import compiled, threads_for

BLOCK_BYTES = 64
# Larger memories are read in place: packing is a matter of some per cent, a second copy of one of memory.
MOST_PACKED_BYTES = 512 * 2**20
# How much room is left behind the last block for patterns to come, as a share of the blocks.
SPARE = 0.125


@dataclass(frozen=True)
class Packed:
    """The blocks of a tensor.

    Attributes:
        blocks: (blocks, d, lanes); behind the last pattern anything.
        finite: (blocks,) one where all of a block is; zero where it may not be.
        order: (n,) where each pattern stands, in lanes; None if in its place.
        version: of the tensor when it was packed.
    """

    blocks: Tensor
    finite: Tensor
    order: Tensor | None
    version: int


_PACKED: WeakTensorKeyDictionary = WeakTensorKeyDictionary()
_NOT_YET = None


def worth_packing(patterns: Tensor) -> bool:
    return patterns.numel() * patterns.element_size() <= MOST_PACKED_BYTES


def keep_packed(patterns: Tensor) -> None:
    """From now on, have the blocks of these patterns at hand; unless they are too many, or change with every call."""
    if torch.compiler.is_compiling() or patterns.requires_grad or patterns.is_inference():
        return
    if worth_packing(patterns) and patterns not in _PACKED:
        _PACKED[patterns] = _NOT_YET


def packed(patterns: Tensor) -> Packed | None:
    """The blocks of these patterns, if they are kept."""
    if patterns not in _PACKED:
        return None
    known: Packed | None = _PACKED[patterns]
    if known is _NOT_YET or known.version != patterns._version:
        known = _PACKED[patterns] = _pack(patterns)
    return known


def stored(patterns: Tensor, blocks: Packed | None) -> tuple[Tensor, Tensor, Tensor]:
    """The three arguments by which every kernel gets its patterns."""
    rows = patterns.detach().contiguous()
    if blocks is None:
        return rows, _blocks(patterns, 0), torch.empty(0, dtype=torch.uint8)
    return rows, blocks.blocks, blocks.finite


def in_rows(scores: Tensor, blocks: Packed | None) -> Tensor:
    """Scores of the lanes, as scores of the patterns."""
    return scores if blocks is None or blocks.order is None else scores[:, blocks.order]


def grown(patterns: Tensor, more: Tensor) -> Tensor:
    """Both, one behind the other; only the new ones are packed."""
    joined = torch.cat([patterns, more])
    known = _kept_of(patterns)
    if known is not None and not joined.is_inference():
        before, lanes = len(patterns), known.blocks.shape[-1]
        enough = _with_room(known, len(joined))
        # Up to the next whole block lane by lane, then block by block.
        aligned = min(len(joined), -(-before // lanes) * lanes)
        _put(enough, torch.arange(before, aligned), joined[before:aligned])
        if aligned < len(joined):
            _fill(joined[aligned:], enough.blocks[aligned // lanes :], enough.finite[aligned // lanes :])
        order = known.order
        if order is not None:
            order = torch.cat([order, torch.arange(before, len(joined))])
        _PACKED[patterns] = _NOT_YET  # two tensors that grow must not write to the same lanes
        _PACKED[joined] = replace(enough, order=order, version=joined._version)
    return joined


def taken(patterns: Tensor, rows: Tensor) -> Tensor:
    """Some of the patterns, in rising order; only those in the last lanes are moved, into the lanes that are free."""
    chosen = patterns[rows]
    known = _kept_of(patterns)
    if known is not None and not chosen.is_inference():
        order = rows.clone() if known.order is None else known.order[rows]
        free = torch.ones(len(rows), dtype=torch.bool)
        free[order[order < len(rows)]] = False
        moved = (order >= len(rows)).nonzero().squeeze(-1)
        order[moved] = free.nonzero().squeeze(-1)
        _PACKED[patterns] = _NOT_YET  # its blocks are changed in place
        _put(known, order[moved], chosen[moved])
        _PACKED[chosen] = replace(known, order=order, version=chosen._version)
    return chosen


def _kept_of(patterns: Tensor) -> Packed | None:
    known: Packed | None = _PACKED.get(patterns)  # type: ignore[no-untyped-call]
    return known if known is not None and known.version == patterns._version else None


def _pack(patterns: Tensor) -> Packed:
    empty = Packed(_blocks(patterns, 0), torch.empty(0, dtype=torch.uint8), None, patterns._version)
    fresh = _with_room(empty, len(patterns))
    _fill(patterns, fresh.blocks, fresh.finite)
    return fresh


def _with_room(known: Packed, count: int) -> Packed:
    lanes = known.blocks.shape[-1]
    wanted, have = -(-count // lanes), len(known.blocks)
    if wanted <= have:
        return known
    size = wanted if have == 0 else wanted + int(SPARE * wanted)
    with torch.inference_mode(False):  # blocks made there could not be changed elsewhere
        blocks, finite = known.blocks.new_zeros(size, *known.blocks.shape[1:]), known.finite.new_ones(size)
    blocks[:have], finite[:have] = known.blocks, known.finite
    return replace(known, blocks=blocks, finite=finite)


def _blocks(patterns: Tensor, count: int) -> Tensor:
    return patterns.new_empty(count, patterns.shape[1], BLOCK_BYTES // patterns.element_size())


def _fill(patterns: Tensor, blocks: Tensor, finite: Tensor) -> None:
    module = compiled()
    assert module is not None
    module.pack(patterns.contiguous(), blocks, finite, threads_for(patterns.numel()))


def _put(known: Packed, places: Tensor, rows: Tensor) -> None:
    lanes = known.blocks.shape[-1]
    block = places // lanes
    known.blocks[block, :, places % lanes] = rows
    known.finite[block[~rows.isfinite().all(-1)]] = 0
