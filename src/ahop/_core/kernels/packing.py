"""Patterns in the order that the kernels read them: in blocks, dimension by dimension, one lane a pattern.

Blocks belong to a tensor that someone wants to keep them for, as a memory does, and end with it; all others are read in
place. They are made once and never changed, so any number of threads may read them.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from ahop._core.kernels.native import compiled, threads_for

BLOCK_BYTES = 64
# Larger memories are read in place: packing is a matter of some per cent, a second copy of one of memory.
MOST_PACKED_BYTES = 128 * 2**20
# Where a tensor keeps its blocks.
KEPT = "_ahop_packed"


@dataclass(frozen=True)
class Packed:
    """The blocks of a tensor.

    Attributes:
        blocks: (blocks, d, lanes); behind the last pattern anything.
        finite: (blocks,) one where all of a block is; zero where it may not be.
        version: of the tensor when it was packed; None if it was not yet.
    """

    blocks: Tensor
    finite: Tensor
    version: int | None


def worth_packing(patterns: Tensor) -> bool:
    return patterns.numel() * patterns.element_size() <= MOST_PACKED_BYTES


def keep_packed(patterns: Tensor) -> None:
    """From now on, have the blocks of these patterns at hand; unless they are too many, or change with every call."""
    if torch.compiler.is_compiling() or patterns.requires_grad or patterns.is_inference():
        return
    if worth_packing(patterns) and not hasattr(patterns, KEPT):
        setattr(patterns, KEPT, Packed(_blocks(patterns, 0), torch.empty(0, dtype=torch.uint8), None))


def packed(patterns: Tensor) -> Packed | None:
    """The blocks of these patterns, if they are kept."""
    known: Packed | None = getattr(patterns, KEPT, None)
    if known is not None and known.version != patterns._version:
        known = _pack(patterns)
        setattr(patterns, KEPT, known)
    return known


def stored(patterns: Tensor, blocks: Packed | None) -> tuple[Tensor, Tensor, Tensor]:
    """The three arguments by which every kernel gets its patterns."""
    rows = patterns.detach().contiguous()
    if blocks is None:
        return rows, _blocks(patterns, 0), torch.empty(0, dtype=torch.uint8)
    return rows, blocks.blocks, blocks.finite


def _pack(patterns: Tensor) -> Packed:
    module, version = compiled(), patterns._version
    assert module is not None
    lanes = BLOCK_BYTES // patterns.element_size()
    count = -(-len(patterns) // lanes)
    with torch.inference_mode(False):
        blocks, finite = _blocks(patterns, count).zero_(), torch.ones(count, dtype=torch.uint8)
    module.pack(patterns.detach().contiguous(), blocks, finite, threads_for(patterns.numel()))
    return Packed(blocks, finite, version)


def _blocks(patterns: Tensor, count: int) -> Tensor:
    return patterns.new_empty(count, patterns.shape[1], BLOCK_BYTES // patterns.element_size())
