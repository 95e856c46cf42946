"""Counting the dimensions that agree."""

from typing import final

import torch
from typing_extensions import override

from ahop._blocks import blocks
from ahop._typing import Patterns, PerDimension, Queries, Scores
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
        if patterns.ndim > 2:
            return self.per_dimension(patterns, queries).sum(-1)
        parts = [
            self.per_dimension(patterns, queries[rows]).sum(-1)
            for rows in blocks(len(queries), patterns.numel() * patterns.element_size())
        ]
        return torch.cat(parts) if parts else queries.new_empty(0, len(patterns))

    @override
    def per_dimension(self, patterns: Patterns, queries: Queries) -> PerDimension:
        return (queries.unsqueeze(-2) == patterns.unsqueeze(-3)).to(patterns.dtype)
