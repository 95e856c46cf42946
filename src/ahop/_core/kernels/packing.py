"""Patterns in the order that the kernels read them: in blocks, dimension by dimension, one lane a pattern.

Blocks are made of patterns that somebody holds prepared, as a memory does; all others are read in place. They never
change, so any number of threads may read them.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from ahop._core.kernels.native import compiled, threads_for
from ahop._core.prepared import held

BLOCK_BYTES = 64


@dataclass(frozen=True)
class Packed:
    """The blocks of a tensor.

    Attributes:
        blocks: (blocks, d, lanes); behind the last pattern anything.
        finite: (blocks,) one where all of a block is; zero where it may not be.
    """

    blocks: Tensor
    finite: Tensor


def packed(patterns: Tensor) -> Packed | None:
    """The blocks of these patterns, if they are held prepared."""
    kept = held(patterns)
    return None if kept is None else kept.get(_pack)


def stored(patterns: Tensor, blocks: Packed | None) -> tuple[Tensor, Tensor, Tensor]:
    """The three arguments by which every kernel gets its patterns."""
    rows = patterns.detach().contiguous()
    if blocks is None:
        return rows, _blocks(patterns, 0), torch.empty(0, dtype=torch.uint8)
    return rows, blocks.blocks, blocks.finite


def _pack(patterns: Tensor) -> Packed:
    module = compiled()
    assert module is not None
    count = -(-len(patterns) // (BLOCK_BYTES // patterns.element_size()))
    blocks, finite = _blocks(patterns, count).zero_(), torch.ones(count, dtype=torch.uint8)
    module.pack(patterns.detach().contiguous(), blocks, finite, threads_for(patterns.numel()))
    return Packed(blocks, finite)


def _blocks(patterns: Tensor, count: int) -> Tensor:
    return patterns.new_empty(count, patterns.shape[1], BLOCK_BYTES // patterns.element_size())
