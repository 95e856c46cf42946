"""Corruption that the package has no form for, or none with all its parts."""

from collections.abc import Callable
from math import log, pi
from typing import TypeAlias, final

import torch
from torch import Generator, Tensor

from ahop.variants import Variant

Corrupt: TypeAlias = Callable[[Tensor, Generator, int], Tensor]

# Queries whose (query, pattern, dimension) table is held at once.
BLOCK = 64


def salt_and_pepper(values: Tensor, generator: Generator, seed: int) -> Tensor:
    """More than half of the entries are black or white, the others noisy."""
    hit = torch.rand(values.shape, generator=generator) < 0.55
    white = torch.rand(values.shape, generator=generator) < 0.5
    noisy = values + 0.35 * torch.randn(values.shape, generator=generator)
    return torch.where(hit, torch.where(white, 1.0, -1.0), noisy)


def quantized(values: Tensor, generator: Generator, seed: int) -> Tensor:
    """Of each noisy entry only the sign is left."""
    return 0.5 * (values + 0.75 * torch.randn(values.shape, generator=generator)).sign()


def amplified(values: Tensor, generator: Generator, seed: int) -> Tensor:
    """Every dimension has a gain of its own, the same for all queries, before noise is added."""
    return _gains(values, seed, 1.0) * values + 1.4 * torch.randn(values.shape, generator=generator)


def clipped(values: Tensor, generator: Generator, seed: int) -> Tensor:
    """Far too loud for a sensor whose range is small and not even centered."""
    return (2.5 * values + 2.2 * torch.randn(values.shape, generator=generator)).clamp(-0.3, 1.0)


def heavy_tailed(values: Tensor, generator: Generator, seed: int) -> Tensor:
    """Noise without a variance: a ratio of two normal numbers."""
    return values + 0.7 * _tails(values, generator)


def everything(values: Tensor, generator: Generator, seed: int) -> Tensor:
    """Gains, salt and pepper, heavy tails, a clip, and steps of a quarter."""
    loud = 0.7 * _gains(values, seed, 0.8) * values + 0.35 * torch.randn(values.shape, generator=generator)
    hit = torch.rand(values.shape, generator=generator)
    loud = torch.where(hit < 0.15, -1.0, torch.where(hit > 0.85, 1.0, loud))
    return (4 * (loud + 0.05 * _tails(values, generator)).clamp(-1.5, 1.5)).round() / 4


def _gains(values: Tensor, seed: int, spread: float) -> Tensor:
    return torch.exp(spread * torch.randn(values.shape[-1], generator=Generator().manual_seed(seed)))


def _tails(values: Tensor, generator: Generator) -> Tensor:
    above, below = (torch.randn(values.shape, generator=generator) for _ in range(2))
    return above / below.abs().clamp_min(1e-3)


UNSEEN: dict[str, Corrupt] = {
    "salt and pepper": salt_and_pepper,
    "quantized": quantized,
    "gain by dimension": amplified,
    "clipped": clipped,
    "heavy tails": heavy_tailed,
    "all together": everything,
}


@final
class UnseenVariant(Variant):
    """One of `UNSEEN`; the seed is of what all its queries share."""

    def __init__(self, name: str, seed: int) -> None:
        super().__init__()
        self.name, self.seed = name, seed

    def configuration(self) -> dict[str, object]:
        return {"name": self.name, "seed": self.seed}

    def corrupt(self, originals: Tensor, generator: Generator) -> Tensor:
        return UNSEEN[self.name](originals, generator, self.seed)


@final
class BrokenVariant(Variant):
    """A table's rows, broken: noise and a fixed shift on all entries; some are garbage instead, some are missing.

    Each entry on its own. Garbage is uniform over the values that its column has in the table, and not shifted.
    """

    handles_missing = True

    def __init__(
        self, table: Tensor, missing: float, garbage: float, bias: float, seed: int, noise: float = 0.3
    ) -> None:
        super().__init__()
        self.missing, self.garbage, self.noise = missing, garbage, noise
        signs = 2.0 * torch.randint(0, 2, (table.shape[1],), generator=Generator().manual_seed(seed)) - 1
        self.shift = bias * signs
        self.low, self.high = table.amin(0), table.amax(0)

    def corrupt(self, originals: Tensor, generator: Generator) -> Tensor:
        kept = originals + self.shift + self.noise * torch.randn(originals.shape, generator=generator)
        garbage = self.low + (self.high - self.low) * torch.rand(originals.shape, generator=generator)
        is_garbage = torch.rand(originals.shape, generator=generator) < self.garbage
        is_missing = torch.rand(originals.shape, generator=generator) < self.missing
        return torch.where(is_garbage, garbage, kept).masked_fill(is_missing, torch.nan)

    def log_likelihood(self, patterns: Tensor, queries: Tensor) -> Tensor:
        """Exact, but for what is the same for all patterns: gaps, and columns of a single value."""
        varied = self.high > self.low
        low, high, stored = self.low[varied], self.high[varied], patterns[:, varied]
        parts = []
        for start in range(0, len(queries), BLOCK):
            block = queries[start : start + BLOCK, varied]
            residual = (block - self.shift[varied]).unsqueeze(1) - stored
            kept = -0.5 * (residual / self.noise).square() - log(self.noise) - 0.5 * log(2 * pi) + log(1 - self.garbage)
            if self.garbage:
                inside = (block >= low) & (block <= high)
                garbage = torch.where(inside, log(self.garbage) - (high - low).log(), -torch.inf)
                kept = torch.logaddexp(kept, garbage.unsqueeze(1))
            parts.append(kept.nan_to_num(0.0).sum(-1))
        return torch.cat(parts)
