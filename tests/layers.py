"""One instance or more of every layer, small, its parameters moved from their start; and what it is called with."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from ahop.nn import (
    Association,
    EnergyTransformerBlock,
    Hopfield,
    HopfieldDecoderLayer,
    HopfieldEncoderLayer,
    HopfieldLayer,
    HopfieldPooling,
)
from ahop.nn.base import Layer
from ahop.similarities.adaptive import AdaptiveSimilarity
from tests.catalogue import shaken

SIZE, BATCH, QUERIES, PATTERNS = 6, 3, 4, 5


@dataclass(frozen=True)
class Case:
    """A layer, the shapes of its inputs behind the batch, and by which of them a mask is named."""

    make: Callable[[], Layer]
    shapes: Sequence[tuple[int, int]]
    masks: dict[str, int] = field(default_factory=dict)

    def layer(self, seed: int = 0) -> Layer:
        torch.manual_seed(seed)
        return shaken(self.make(), seed).eval()

    def inputs(self, batch: int = BATCH, seed: int = 0, dtype: torch.dtype = torch.float32) -> list[Tensor]:
        generator = torch.Generator().manual_seed(seed)
        return [torch.randn(batch, *shape, generator=generator).to(dtype) for shape in self.shapes]

    def padding(self, batch: int = BATCH) -> dict[str, Tensor]:
        """Masks that leave out the last row of each sample but the first, and all rows of the last sample."""
        masks = {name: torch.ones(batch, count, dtype=torch.bool) for name, count in self.masks.items()}
        for mask in masks.values():
            mask[1:, -1] = False
            mask[-1] = False
        return masks


_QUERIES, _PATTERNS = (QUERIES, SIZE), (PATTERNS, SIZE)
_CROSS = {"present": PATTERNS}

LAYERS: dict[str, Case] = {
    "association": Case(lambda: Association(scaling=0.3), [_QUERIES, _PATTERNS]),
    "association, adaptive": Case(lambda: Association(AdaptiveSimilarity(SIZE), scaling=0.3), [_QUERIES, _PATTERNS]),
    "hopfield": Case(lambda: Hopfield(SIZE, 2), [_QUERIES, _PATTERNS], _CROSS),
    "hopfield, bare": Case(lambda: Hopfield(SIZE, 3, normalize=False, bias=False), [_QUERIES, _PATTERNS], _CROSS),
    "hopfield, adaptive": Case(lambda: Hopfield(SIZE, 2, similarity="adaptive"), [_QUERIES, _PATTERNS], _CROSS),
    "hopfield, updated": Case(
        lambda: Hopfield(SIZE, 2, head_size=4, updates=3, scaling=[0.5, 2.0], learn_scaling=True),
        [_QUERIES, _PATTERNS],
        _CROSS,
    ),
    "hopfield, at rest": Case(
        lambda: Hopfield(SIZE, 2, similarity="adaptive", updates=3, tolerance=0.05), [_QUERIES, _PATTERNS], _CROSS
    ),
    "hopfield, sparse": Case(
        lambda: Hopfield(SIZE, 2, separation="sparsemax", modulation="kernel"), [_QUERIES, _PATTERNS], _CROSS
    ),
    "hopfield, other sizes": Case(
        lambda: Hopfield(SIZE, 2, stored_size=3, value_size=7, output_size=2, similarity="euclidean"),
        [_QUERIES, (PATTERNS, 3), (PATTERNS, 7)],
        _CROSS,
    ),
    "pooling": Case(lambda: HopfieldPooling(SIZE, 2, num_heads=4), [_PATTERNS], _CROSS),
    "pooling, adaptive": Case(lambda: HopfieldPooling(SIZE, num_heads=2, similarity="adaptive"), [_PATTERNS], _CROSS),
    "layer": Case(lambda: HopfieldLayer(SIZE, 7, output_size=3), [_QUERIES]),
    "layer, adaptive": Case(
        lambda: HopfieldLayer(SIZE, 7, num_heads=2, value_size=4, similarity="adaptive"), [_QUERIES]
    ),
    "energy transformer": Case(
        lambda: EnergyTransformerBlock(SIZE, 2, quantity=5, steps=3), [_QUERIES], {"present": QUERIES}
    ),
    "energy transformer, one head": Case(
        lambda: EnergyTransformerBlock(SIZE, head_size=4, steps=2, sees_itself=True), [_QUERIES], {"present": QUERIES}
    ),
    "encoder": Case(lambda: HopfieldEncoderLayer(Hopfield(SIZE, 2), hidden_size=8), [_QUERIES], {"present": QUERIES}),
    "decoder": Case(
        lambda: HopfieldDecoderLayer(
            Hopfield(SIZE, 2), Hopfield(SIZE, 2, similarity="adaptive"), hidden_size=8, activation="gelu"
        ),
        [_QUERIES, _PATTERNS],
        {"queries_present": QUERIES, "present": PATTERNS},
    ),
}
