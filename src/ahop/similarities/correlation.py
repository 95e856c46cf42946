"""Pearson's correlation of two vectors."""

from typing import final

import torch
from torch import Tensor
from typing_extensions import override

from ahop._core.missing import about_mean, filled, observed
from ahop._core.overlap import over_observed
from ahop._core.prepared import derived
from ahop._core.tensors import of_largest_one, of_unit_length
from ahop._core.typing import Patterns, Queries, Scores
from ahop.similarities.base import Similarity
from ahop.similarities.cosine import over_root, with_squares

# A sum of squares whose share around the mean is no larger than this is rounding: the row is constant.
ROUNDING = 1e-12


@final
class CorrelationSimilarity(Similarity):
    r"""$\mathrm{corr}(\xi, x) = \cos(\xi - \bar\xi, x - \bar x)$, 0 where a row is constant.

    The means are those along the dimensions; with NaN, along the dimensions that both sides have. What multiplies a
    whole row, or is added to all of it, changes nothing.
    """

    @override
    def forward(self, patterns: Patterns, queries: Queries) -> Scores:
        stored = derived(patterns, _directions)
        return of_unit_length(about_mean(queries)) @ stored.mT

    @override
    def partial(self, patterns: Patterns, queries: Queries) -> Scores:
        stored, squares = derived(patterns, _with_squares, copies=4)
        asked, in_queries = of_largest_one(filled(about_mean(queries.double()))), observed(queries).double()
        sums = over_observed(torch.stack([in_queries, asked, asked.square()]), patterns)
        shared, of_queries, of_patterns = sums[0].clamp_min(1), sums[1], in_queries @ stored.mT
        lengths = _around(sums[2], of_queries, shared) * _around(in_queries @ squares.mT, of_patterns, shared)
        return over_root(asked @ stored.mT - of_queries * of_patterns / shared, lengths).to(queries.dtype)


def _directions(patterns: Patterns) -> Tensor:
    return of_unit_length(about_mean(patterns))


def _with_squares(patterns: Patterns) -> tuple[Tensor, Tensor]:
    return with_squares(about_mean(patterns.double()))


def _around(squares: Tensor, sums: Tensor, count: Tensor) -> Tensor:
    """The sum of squares about the mean; 0 where it is nothing but rounding."""
    about = squares - sums.square() / count
    return about.where(about > ROUNDING * squares, 0)
