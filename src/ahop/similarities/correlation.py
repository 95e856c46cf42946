"""Pearson's correlation of two vectors."""

from typing import final

from torch import Tensor
from typing_extensions import override

from ahop._derived import derived
from ahop._missing import about_mean, filled, observed, shared_dimensions
from ahop._tensors import of_largest_one, of_unit_length
from ahop._typing import Patterns, Queries, Scores
from ahop.similarities.base import Similarity
from ahop.similarities.cosine import over_root

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
        stored = derived(patterns, self, lambda: of_unit_length(about_mean(patterns)))
        return of_unit_length(about_mean(queries)) @ stored.mT

    @override
    def partial(self, patterns: Patterns, queries: Queries) -> Scores:
        in_patterns, in_queries = observed(patterns).double(), observed(queries).double()
        shared = shared_dimensions(patterns, queries).double().clamp_min(1)
        stored, asked = (of_largest_one(filled(about_mean(rows.double()))) for rows in (patterns, queries))
        of_queries, of_patterns = asked @ in_patterns.mT, in_queries @ stored.mT
        lengths = _around(asked.square() @ in_patterns.mT, of_queries, shared)
        lengths = lengths * _around(in_queries @ stored.square().mT, of_patterns, shared)
        return over_root(asked @ stored.mT - of_queries * of_patterns / shared, lengths).to(queries.dtype)


def _around(squares: Tensor, sums: Tensor, count: Tensor) -> Tensor:
    """The sum of squares about the mean; 0 where it is nothing but rounding."""
    about = squares - sums.square() / count
    return about.where(about > ROUNDING * squares, 0)
