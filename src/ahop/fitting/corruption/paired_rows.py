"""Pairs of rows, and statistics that every mixture fit needs."""

from dataclasses import dataclass
from functools import cached_property
from typing import final

import torch
from torch import Tensor

from ahop._core.missing import midpoints, quantiles
from ahop.fitting.corruption.gaps import Gaps
from ahop.fitting.settings import MixtureSettings
from ahop.variants.mixture import POPULATION


@final
@dataclass(frozen=True)
class PairedRows:
    """Rows (m, d) and weights (m,) in float64, and what all forms ask of them."""

    originals: Tensor
    copies: Tensor
    weights: Tensor
    settings: MixtureSettings

    @cached_property
    def gaps(self) -> Gaps:
        return Gaps(self.originals, self.copies, self.settings)

    @cached_property
    def population(self) -> Tensor:
        """Sample of the population of origins, (d, POPULATION); of the copies where no origin was observed."""
        known = torch.where(torch.isnan(self.originals).all(0), self.copies, self.originals)
        return quantiles(known, midpoints(POPULATION))

    def part(self, count: int, entries: int) -> "PairedRows":
        """The first pairs, and of their dimensions as many, evenly spread, as hold so many entries."""
        originals, copies = self.originals[:count], self.copies[:count]
        shared = int((originals == originals).logical_and_(copies == copies).sum())
        every = max(1, -(-shared // entries))
        return PairedRows(originals[:, ::every], copies[:, ::every], self.weights[:count], self.settings)
