"""The inner product."""

from typing import final

from typing_extensions import override

from ahop._core.missing import filled
from ahop._core.overlap import extrapolation
from ahop._core.typing import Patterns, PerDimension, Queries, Scores
from ahop.similarities.base import DecomposableSimilarity


@final
class DotSimilarity(DecomposableSimilarity):
    r"""$\mathrm{dot}(\xi, x) = \xi^\top x$.

    Paper:
        Section 3.3, second base similarity of A-Hop; column sim of Table 1.
    """

    kernel = "dot"
    is_linear = True

    @override
    def forward(self, patterns: Patterns, queries: Queries) -> Scores:
        return queries @ patterns.mT

    @override
    def partial(self, patterns: Patterns, queries: Queries) -> Scores:
        return (filled(queries) @ filled(patterns).mT) * extrapolation(patterns, queries)

    @override
    def per_dimension(self, patterns: Patterns, queries: Queries) -> PerDimension:
        return queries.unsqueeze(-2) * patterns.unsqueeze(-3)
