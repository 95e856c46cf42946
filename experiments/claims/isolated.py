"""Patterns that are each corrupted in their own way: when do weights of their own pay?

Ours, after the paper's isolated variants. Each pattern has its own share of redrawn dimensions and its own noise. With
few pairs a pattern says little about itself, so that weights of its own are best drawn to those of all.
"""

from pathlib import Path

import torch
from torch import Generator, Tensor

import ahop
from ahop.similarities import IsolatedSimilarity
from ahop.variants import Variant
from experiments.support.data import uniform_patterns
from experiments.support.harness import Experiment, Row
from experiments.support.measures import ceiling, outcome_of
from experiments.support.pictures import curves
from experiments.support.settings import seed_of_test

COUNT, QUICK_COUNT, DIMENSIONS = 128, 96, 32
FULL, QUICK = (1, 2, 4, 8, 16, 32), (1, 16)


class _OwnWays(Variant):
    """Each pattern has a share of redrawn dimensions and a noise of its own."""

    def __init__(self, patterns: Tensor, seed: int) -> None:
        super().__init__()
        generator = Generator().manual_seed(seed)
        self.stored = patterns
        self.shares = 0.9 * torch.rand(len(patterns), generator=generator)
        self.stds = 0.05 + 0.9 * torch.rand(len(patterns), generator=generator)

    def configuration(self) -> dict[str, object]:
        return {}

    def corrupt(self, originals: Tensor, generator: Generator) -> Tensor:
        own = torch.cdist(originals, self.stored).argmin(-1)
        noisy = originals + self.stds[own, None] * torch.randn(originals.shape, generator=generator)
        redrawn = 2 * torch.rand(originals.shape, generator=generator) - 1
        is_redrawn = torch.rand(originals.shape, generator=generator) < self.shares[own, None]
        return torch.where(is_redrawn, redrawn, noisy)

    def log_likelihood(self, patterns: Tensor, queries: Tensor) -> Tensor:
        """Exact: each dimension is redrawn or noisy, with the rates of its pattern."""
        share, std = self.shares[:, None], self.stds[:, None]
        scaled = (queries.unsqueeze(1) - patterns) / std
        kept = (1 - share).log() - 0.5 * scaled.square() - std.log() - 0.9189385332046727
        outside = (queries.abs() > 1).unsqueeze(1)
        redrawn = (0.5 * share).log().expand_as(kept).masked_fill(outside, -torch.inf)
        return torch.logaddexp(kept, redrawn).sum(-1)


def cells(seeds: int, quick: bool) -> list[Row]:
    return [{"pairs": count, "seed": seed} for seed in range(seeds) for count in (QUICK if quick else FULL)]


def run(cell: Row, quick: bool) -> list[Row]:
    seed, count = cell["seed"], QUICK_COUNT if quick else COUNT
    patterns = uniform_patterns(count, DIMENSIONS, seed)
    variant = _OwnWays(patterns, seed)
    pairs = variant.sample(patterns, cell["pairs"] * count, seed)
    test = variant.sample(patterns, 1000, seed_of_test(seed))
    limit = ceiling(patterns, variant, test)
    isolated = ahop.AssociativeMemory(patterns, IsolatedSimilarity(count, DIMENSIONS))
    adam = ahop.fitting.AdamSolver(epochs=5 if quick else 100, learning_rate=0.05)
    models = {
        "shared weights": ahop.fit(ahop.zoo.a_hop(patterns), pairs=pairs, progress=False),
        "own weights": ahop.fit(isolated, pairs=pairs, solver=adam, progress=False),
        "own weights, shrunk": ahop.fit(isolated, pairs=pairs, progress=False),
    }
    return [{**cell, "model": name, **outcome_of(memory, test), **limit} for name, memory in models.items()]


def draw(rows: list[Row], path: Path) -> None:
    curves(rows, path, over="pairs", title="Right first answers; each pattern is corrupted in its own way")


EXPERIMENT = Experiment(
    name="isolated",
    title="Weights for each pattern, by how many pairs it has; N = 128, d = 32, each corrupted in its own way",
    seeds=5,
    cells=cells,
    run=run,
    keys=("pairs", "model"),
    metrics=("top1", "bayes", "accuracy", "bayes_blend", "error"),
    draw=draw,
    notes=(
        "*pairs* for each pattern, on average. *shrunk* draws the weights of a pattern to those of all, by as much as "
        "held-out pairs ask for; *own weights* without it are fitted by Adam. 1000 test queries a seed. The quick form "
        "has fewer patterns."
    ),
)
