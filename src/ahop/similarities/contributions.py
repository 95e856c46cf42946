"""A score, taken apart."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ahop._core.typing import PerDimension, Scores


@dataclass(frozen=True)
class Contributions:
    """Contributions to a score: their sum is the score itself.

    Attributes:
        dimensions: (b, n, d) what each dimension adds.
        wholes: (b, n) what only the whole vector says, by name.
        is_kept: (b, n, d) whether each entry of the query was rather kept than an outlier; None if nothing tells.
    """

    dimensions: PerDimension
    wholes: dict[str, Scores]
    is_kept: Tensor | None = None

    @classmethod
    def of_whole(cls, name: str, scores: Scores, dimensions: int) -> "Contributions":
        """Contribution of a similarity that is no sum over dimensions."""
        return cls(scores.new_zeros(*scores.shape, dimensions), {name: scores})

    @property
    def scores(self) -> Scores:
        return self.dimensions.sum(-1) + sum(self.wholes.values(), torch.zeros(()))

    def among(self, places: Sequence[int], dimensions: int) -> "Contributions":
        """Contributions of some dimensions among all; the others add zero."""
        shape = *self.dimensions.shape[:-1], dimensions
        spread = self.dimensions.new_zeros(shape)
        spread[..., places] = self.dimensions
        if self.is_kept is None:
            return Contributions(spread, self.wholes)
        is_kept = self.is_kept.new_ones(shape)
        is_kept[..., places] = self.is_kept
        return Contributions(spread, self.wholes, is_kept)

    def scaled(self, factor: Tensor) -> "Contributions":
        wholes = {name: each * factor for name, each in self.wholes.items()}
        return Contributions(self.dimensions * factor, wholes, self.is_kept)

    def named(self, name: str) -> "Contributions":
        """With the wholes under the name of who said them."""
        wholes = {name: sum(self.wholes.values(), torch.zeros(()))} if self.wholes else {}
        return Contributions(self.dimensions, wholes, self.is_kept)

    def __add__(self, other: "Contributions") -> "Contributions":
        wholes = dict(self.wholes)
        for name, each in other.wholes.items():
            wholes[name] = wholes[name] + each if name in wholes else each
        is_kept = other.is_kept if self.is_kept is None else self.is_kept
        return Contributions(self.dimensions + other.dimensions, wholes, is_kept)
