"""Footprint weights for each stored pattern alone."""

from collections.abc import Sequence
from typing import final

import torch
from torch import Tensor, nn
from typing_extensions import override

from ahop._core.checks import check_count
from ahop._core.kernels.rank_weighting import ranked_scores
from ahop._core.typing import Indices, Patterns, Queries, Scores
from ahop.errors import ShapeError
from ahop.similarities.adaptive import check_bases
from ahop.similarities.base import DecomposableSimilarity, Similarity
from ahop.similarities.contributions import Contributions
from ahop.similarities.footprint import by_rank, rank_weights_of


@final
class IsolatedSimilarity(Similarity):
    r"""$s(\xi_n, x) = \sum_k w_{kn}^\top \mathrm{ftpt}_k(\xi_n, x)$: no weight is shared between patterns.

    For variant distributions whose patterns are corrupted each in its own way. It wants pairs from every pattern.

    Paper:
        Isolated variants [apd:complicated].
    """

    def __init__(self, count: int, dimensions: int, bases: Sequence[DecomposableSimilarity] | None = None) -> None:
        super().__init__()
        self.count = check_count("count", count, least=0)  # none, where a filter leaves none
        self.dimensions = check_count("dimensions", dimensions)
        self.bases = nn.ModuleList(check_bases(bases))
        self.missing_is_evidence = any(base.missing_is_evidence for base in self._bases())
        self.weights = nn.Parameter(_base_weights(len(self.bases), count, dimensions))

    @override
    def configuration(self) -> dict[str, object]:
        return {"count": self.count, "dimensions": self.dimensions, "bases": self._bases()}

    @override
    def forward(self, patterns: Patterns, queries: Queries) -> Scores:
        if patterns.shape[-2] != self.count:
            raise ShapeError(
                f"`patterns` must have {self.count} rows, one for each set of weights; got {patterns.shape[-2]}. "
                "Use `similarity.rows(indices)` to score some of them."
            )
        return self.scored(rank_weights_of(self.weights), patterns, queries)

    def scored(self, rank_weights: Tensor, patterns: Patterns, queries: Queries) -> Scores:
        """The scores under other rank weights, (bases, n, d)."""
        terms = zip(self._bases(), rank_weights.to(patterns.dtype), strict=True)
        scores = [ranked_scores(base.rule_for(patterns, queries), u, patterns, queries) for base, u in terms]
        return torch.stack(scores).sum(0)

    partial = forward

    @override
    def contributions(self, patterns: Patterns, queries: Queries) -> Contributions:
        terms = zip(self._bases(), rank_weights_of(self.weights), strict=True)
        return Contributions(torch.stack([by_rank(base, u, patterns, queries) for base, u in terms]).sum(0), {})

    @override
    def rows(self, indices: Indices | slice) -> "IsolatedSimilarity":
        return self._with(self.weights.detach()[:, indices].clone())

    @override
    def grown(self, count: int) -> "IsolatedSimilarity":
        fresh = _base_weights(len(self.bases), count, self.dimensions).to(self.weights)
        return self._with(torch.cat([self.weights.detach(), fresh], dim=1))

    def _with(self, weights: Tensor) -> "IsolatedSimilarity":
        other = IsolatedSimilarity(weights.shape[1], self.dimensions, self._bases())
        other.weights = nn.Parameter(weights)
        return other

    def _bases(self) -> list[DecomposableSimilarity]:
        return [base for base in self.bases if isinstance(base, DecomposableSimilarity)]


def _base_weights(bases: int, count: int, dimensions: int) -> Tensor:
    weights = torch.zeros(bases, count, dimensions)
    weights[..., -1] = 1
    return weights
