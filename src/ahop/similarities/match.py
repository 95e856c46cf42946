"""Counting the dimensions that agree."""

from typing import final

import torch
from typing_extensions import override

from ahop._core.typing import Patterns, PerDimension, Queries, Scores
from ahop.similarities.base import DecomposableSimilarity


@final
class MatchSimilarity(DecomposableSimilarity):
    r"""$\sum_i \delta(x_i - \xi_i)$: in how many dimensions is the query exactly the pattern?

    Discrete, so it has no gradient; right where a dimension is either untouched or redrawn, and nowhere else.

    Paper:
        The optimum for masked variants with a uniform generator [lem:opt-masked], whose $w = \mathbf 1$ over
        $\delta(\tilde q)$ does not depend on the order of $\tilde q$.
    """

    @override
    def forward(self, patterns: Patterns, queries: Queries) -> Scores:
        return queries.shape[-1] - torch.cdist(queries, patterns, p=0.0)  # the distance counts those that differ

    @override
    def per_dimension(self, patterns: Patterns, queries: Queries) -> PerDimension:
        return (queries.unsqueeze(-2) == patterns.unsqueeze(-3)).to(patterns.dtype)
