"""What the measurements of large memories share: their patterns, and how much is asked of them."""

import torch
from torch import Tensor

from ahop.scale.indexes import Engine

DIMENSIONS, PAIRS, QUERIES = 64, 512, 1000
CANDIDATES = 100
FACTORS, CLUSTERS = 16, 5000


def structured(count: int) -> Tensor:
    """Clusters in a space of few dimensions, squashed to [-1, 1]."""
    generator = torch.Generator().manual_seed(0)
    centers = torch.randn(CLUSTERS, FACTORS, generator=generator)
    places = centers[torch.randint(CLUSTERS, (count,), generator=generator)]
    places = places + 0.5 * torch.randn(count, FACTORS, generator=generator)
    mixed = places @ torch.randn(FACTORS, DIMENSIONS, generator=generator) / FACTORS**0.5
    own = torch.randn(count, DIMENSIONS, generator=generator)
    patterns: Tensor = mixed.mul_(1.5).add_(own, alpha=0.3).tanh_()  # in place: ten million fill the memory otherwise
    return patterns


def uniform(count: int) -> Tensor:
    return 2 * torch.rand(count, DIMENSIONS, generator=torch.Generator().manual_seed(0)) - 1


def index_bytes(engine: Engine) -> int:
    return sum(each.nbytes for each in engine.tensors().values())
