"""What the experiments on the paper's mixed variant share: the patterns stored, and what happens to their copies."""

from dataclasses import dataclass
from typing import Literal

from torch import Tensor

import ahop
from experiments.support.data import mnist_patterns, uniform_patterns
from experiments.support.harness import Row
from experiments.support.measures import ceiling

COUNT = 2048


@dataclass(frozen=True)
class World:
    """What one seed of a setting draws: pairs to learn from, copies to be tested on, and the ceilings of these."""

    patterns: Tensor
    pairs: ahop.Pairs
    test: ahop.Pairs
    limit: Row


@dataclass(frozen=True)
class Setting:
    """One cell of such an experiment. Pairs to learn from are drawn with the seed, test queries with another."""

    dataset: Literal["synthetic", "mnist"]
    difficulty: float
    signs: Literal["constant", "per_query"] = "constant"
    pairs: int = 512

    @property
    def name(self) -> str:
        return f"{self.dataset} {self.difficulty} {self.signs.replace('_', ' ')}, {self.pairs} pairs"

    def patterns(self, seed: int) -> Tensor:
        return mnist_patterns(COUNT, seed) if self.dataset == "mnist" else uniform_patterns(COUNT, 64, seed)

    def variant(self, seed: int) -> ahop.MixedVariant:
        return ahop.MixedVariant(self.difficulty, self.difficulty, self.difficulty, signs=self.signs, seed=seed)

    def queries(self, quick: bool) -> int:
        """How many test queries: the exact posterior of more would take too long."""
        return 400 if quick or self.dataset == "mnist" else 1000

    def drawn(self, seed: int, quick: bool, pairs: int | None = None) -> World:
        patterns, variant, count = self.patterns(seed), self.variant(seed), self.queries(quick)
        test = variant.sample(patterns, count, seed_of_test(seed))
        return World(
            patterns,
            pairs=variant.sample(patterns, pairs or self.pairs, seed),
            test=test,
            limit=ceiling(patterns, variant, test),
        )


def seed_of_test(seed: int) -> int:
    """Test queries never share a seed with the pairs that were learned from."""
    return 10_000 + seed
