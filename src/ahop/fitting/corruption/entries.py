"""Observed entries of pairs, as a dense table or as a list."""

from functools import cached_property
from typing import final

import torch
from torch import Tensor

# Tables are walked faster than lists are, but all of them has to be.
LISTED = 0.5


@final
class Entries:
    """The entries that original and copy of a pair share.

    Attributes:
        originals: (d, m), zero where not shared; or (e,), dimension by dimension.
        copies: as `originals`.
        shared: one where both were observed; None if everywhere.
        places: (e,) of the entries in a table (d, m); None if they are the table.
    """

    def __init__(self, originals: Tensor, copies: Tensor) -> None:
        self.shape = copies.shape
        self.shared: Tensor | None = None
        self.places: Tensor | None = None
        both = originals + copies
        known = both == both
        self.count = int(known.sum())
        if self.count < LISTED * known.numel():
            self.places = known.flatten().nonzero().squeeze(-1)
            originals, copies = self.of_table(originals), self.of_table(copies)
        elif self.count < known.numel():
            self.shared = known.to(copies.dtype)
            originals, copies = (torch.where(known, each, 0) for each in (originals, copies))
        self.originals, self.copies = originals, copies

    @cached_property
    def _dimension(self) -> Tensor:
        assert self.places is not None
        return torch.div(self.places, self.shape[1], rounding_mode="floor")

    @cached_property
    def _pair(self) -> Tensor:
        assert self.places is not None
        return self.places % self.shape[1]

    def of_table(self, table: Tensor) -> Tensor:
        """The entries of a table (d, m)."""
        return table if self.places is None else table.flatten()[self.places]

    def of_dimensions(self, numbers: Tensor) -> Tensor:
        """Numbers (d,) of the dimensions, beside the entries."""
        return self.of_dimensions_as(numbers.to(self.copies.dtype))

    def of_dimensions_as(self, numbers: Tensor) -> Tensor:
        """Sums by dimension, in their own dtype."""
        return numbers.unsqueeze(-1) if self.places is None else numbers[self._dimension]

    def of_pairs(self, numbers: Tensor) -> Tensor:
        """Numbers (m,) of the pairs where they share an entry, and zero elsewhere."""
        numbers = self.of_pairs_as(numbers.to(self.copies.dtype))
        return numbers if self.shared is None else numbers * self.shared

    def of_pairs_as(self, numbers: Tensor) -> Tensor:
        """Sums by pair, in their own dtype, everywhere."""
        return numbers.expand(self.shape) if self.places is None else numbers[self._pair]

    def between(self, knots: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """The knot (of d, k) below each value, and how far it is on the way to the next, from 0 to 1."""
        own = knots.contiguous() if self.places is None else knots[self._dimension]
        asked = values if self.places is None else values.unsqueeze(-1)
        lower = torch.searchsorted(own, asked.contiguous()).sub_(1).clamp_(0, knots.shape[1] - 2)
        low, high = (own.gather(-1, lower + step) for step in (0, 1))
        share = ((asked - low) / (high - low)).nan_to_num_(0.0).clamp_(0, 1)
        return lower.view_as(values), share.view_as(values)

    def sums_by_dimension(self, values: Tensor) -> Tensor:
        if self.places is None:
            return values.sum(-1).double()
        return torch.bincount(self._dimension, values.double(), self.shape[0])

    def product_sums(self, weights: Tensor, products: Tensor) -> Tensor:
        """The weighted sums of products (..., p) of the entries by dimension, (p, d)."""
        if self.places is None:
            return (weights.unsqueeze(1) @ products).squeeze(1).mT.double()
        sums = products.new_zeros(self.shape[0], products.shape[-1], dtype=torch.float64)
        return sums.index_add_(0, self._dimension, (products * weights.unsqueeze(-1)).double()).mT
