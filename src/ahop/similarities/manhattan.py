"""The sum of absolute differences, sign turned."""

from typing import final

import torch
from typing_extensions import override

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
    def per_dimension(self, patterns: Patterns, queries: Queries) -> PerDimension:
        return -(queries.unsqueeze(-2) - patterns.unsqueeze(-3)).abs()
