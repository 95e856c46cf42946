"""The sum of absolute differences, sign turned."""

from typing import final

import torch
from typing_extensions import override

from ahop._missing import centered, extrapolation, filled, observed
from ahop._typing import Patterns, PerDimension, Queries, Scores
from ahop.similarities.base import DecomposableSimilarity


@final
class ManhattanSimilarity(DecomposableSimilarity):
    r"""$-\lVert \xi - x \rVert_1$.

    Paper:
        Table 1, the similarity of U-Hop.
    """

    kernel = "manhattan"

    @override
    def forward(self, patterns: Patterns, queries: Queries) -> Scores:
        return -torch.cdist(queries, patterns, p=1.0)

    @override
    def partial(self, patterns: Patterns, queries: Queries) -> Scores:
        """The distance once gaps hold the center, less what these add to it."""
        scale, in_patterns, in_queries = extrapolation(patterns, queries), observed(patterns), observed(queries)
        patterns, queries = map(filled, centered(patterns, queries))
        added = queries.abs() @ (1 - in_patterns).mT + (1 - in_queries) @ patterns.abs().mT
        return (added - torch.cdist(queries, patterns, p=1.0)).clamp_max(0) * scale

    @override
    def per_dimension(self, patterns: Patterns, queries: Queries) -> PerDimension:
        return -(queries.unsqueeze(-2) - patterns.unsqueeze(-3)).abs()
