"""A score, taken apart."""

from dataclasses import dataclass

import torch
from torch import Tensor

from ahop._typing import PerDimension, Scores


@dataclass(frozen=True)
class Contributions:
    """What makes a score: their sum is the score itself.

    Attributes:
        dimensions: (b, n, d) what each dimension adds.
        wholes: (b, n) what only the whole vector says, by name.
    """

    dimensions: PerDimension
    wholes: dict[str, Scores]

    @classmethod
    def of_whole(cls, name: str, scores: Scores, dimensions: int) -> "Contributions":
        """Of a similarity that is no sum over dimensions."""
        return cls(scores.new_zeros(*scores.shape, dimensions), {name: scores})

    @property
    def scores(self) -> Scores:
        return self.dimensions.sum(-1) + sum(self.wholes.values(), torch.zeros(()))

    def scaled(self, factor: Tensor) -> "Contributions":
        return Contributions(self.dimensions * factor, {name: each * factor for name, each in self.wholes.items()})

    def named(self, name: str) -> "Contributions":
        """With the wholes under the name of who said them."""
        return Contributions(self.dimensions, {name: sum(self.wholes.values(), torch.zeros(()))} if self.wholes else {})

    def __add__(self, other: "Contributions") -> "Contributions":
        wholes = dict(self.wholes)
        for name, each in other.wholes.items():
            wholes[name] = wholes[name] + each if name in wholes else each
        return Contributions(self.dimensions + other.dimensions, wholes)
