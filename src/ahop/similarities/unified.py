"""The quadratic similarity that unifies the paper's noisy and biased optima."""

from typing import final

import torch
from torch import Tensor, nn
from typing_extensions import override

from ahop._core.checks import check_count
from ahop._core.missing import filled, holds_nan, observed
from ahop._core.overlap import extrapolation, over_observed
from ahop._core.prepared import derived
from ahop._core.tensors import block_diagonal, centered
from ahop._core.typing import Coefficients, Features, Patterns, PerDimension, Queries, Scores
from ahop.similarities.base import DecomposableSimilarity, LinearSimilarity
from ahop.similarities.euclidean import centered_squares


@final
class UnifiedSimilarity(DecomposableSimilarity, LinearSimilarity):
    r"""$s = -(x - \xi)^\top \mathrm{diag}(a)(x - \xi) + b^\top (x - \xi)$.

    $a$ is the precision of each dimension and $b = 2\,\mathrm{diag}(a)\,d$ points along the bias $d$: up to a constant,
    $s = -\lVert x - \xi - d \rVert^2$ in the metric of $a$. Linear in $(a, b)$, so fitting is convex.

    Paper:
        $s_{\text{unify}}$ of [apd:proof-energy]; with $a = 1$ it is the similarity of the energy theorem.
    """

    def __init__(self, dimensions: int) -> None:
        super().__init__()
        self.dimensions = check_count("dimensions", dimensions)
        self.precision = nn.Parameter(torch.ones(dimensions))
        self.slope = nn.Parameter(torch.zeros(dimensions))

    @override
    def configuration(self) -> dict[str, object]:
        return {"dimensions": self.dimensions}

    @override
    def forward(self, patterns: Patterns, queries: Queries) -> Scores:
        center, stored, squares = derived(patterns, _with_squares, copies=2)
        precision, slope, asked = self.precision.to(stored.dtype), self.slope.to(stored.dtype), queries - center
        of_queries = ((slope - precision * asked) * asked).sum(-1).unsqueeze(-1)
        return (2 * precision * asked - slope) @ stored.mT + of_queries - (squares @ precision).unsqueeze(-2)

    @override
    def partial(self, patterns: Patterns, queries: Queries) -> Scores:
        center, stored, squares = centered_squares(patterns)
        precision, slope, known = self.precision.to(stored.dtype), self.slope.to(stored.dtype), filled(queries - center)
        in_queries = observed(queries)
        of_queries = over_observed((slope - precision * known) * known, patterns)
        of_patterns = (in_queries * precision) @ squares.mT
        scores = (2 * precision * known - in_queries * slope) @ stored.mT + of_queries - of_patterns
        return scores * extrapolation(patterns, queries)

    @override
    def per_dimension(self, patterns: Patterns, queries: Queries) -> PerDimension:
        difference = queries.unsqueeze(-2) - patterns.unsqueeze(-3)
        return (self.slope.to(difference.dtype) - self.precision.to(difference.dtype) * difference) * difference

    @override
    def features(self, patterns: Patterns, queries: Queries) -> Features:
        with torch.no_grad():
            difference = queries.unsqueeze(-2) - patterns.unsqueeze(-3)
            features = torch.cat([-difference.square(), difference], dim=-1)
            if not holds_nan(patterns, queries):
                return features
            # What was observed, scaled up, and not means in the gaps: only this gives the score for all coefficients.
            return filled(features) * extrapolation(patterns, queries).unsqueeze(-1)

    @property
    @override
    def coefficients(self) -> Coefficients:
        return torch.cat([self.precision, self.slope])

    @override
    def set_coefficients(self, coefficients: Coefficients) -> None:
        with torch.no_grad():
            self.precision.copy_(coefficients[: self.dimensions])
            self.slope.copy_(coefficients[self.dimensions :])

    @override
    def roughness(self) -> Tensor:
        """Distance of each precision from their mean, and of each slope from zero."""
        deviation = torch.eye(self.dimensions, dtype=torch.float64) - 1 / self.dimensions
        return block_diagonal([deviation, torch.eye(self.dimensions, dtype=torch.float64)])

    @override
    def starts(self) -> Tensor:
        ones = torch.ones(1, self.dimensions, dtype=torch.float64)
        return torch.cat([ones, torch.zeros_like(ones)], dim=1)


def _with_squares(patterns: Patterns) -> tuple[Tensor, Patterns, Patterns]:
    center, stored = centered(patterns)
    return center, stored, stored.square()
