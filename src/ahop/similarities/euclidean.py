"""The squared Euclidean distance, sign turned."""

from typing import final

from typing_extensions import override

from ahop._missing import centered, extrapolation, filled, observed, over_observed
from ahop._typing import Patterns, PerDimension, Queries, Scores
from ahop.similarities.base import DecomposableSimilarity


@final
class EuclideanSimilarity(DecomposableSimilarity):
    r"""$\mathrm{dis}(\xi, x) = -\lVert \xi - x \rVert_2^2$.

    One matrix product. Both sides are first moved to the center of the patterns, which changes no distance and
    saves the digits that a large common offset would cost.

    Paper:
        Section 3.3, first base similarity of A-Hop. With argmax it is the optimum for isotropic noise
        [lem:opt-iso-noisy].
    """

    kernel = "euclidean"

    @override
    def forward(self, patterns: Patterns, queries: Queries) -> Scores:
        center = patterns.detach().mean(-2, keepdim=True)
        patterns, queries = patterns - center, queries - center
        of_queries, of_patterns = queries.square().sum(-1).unsqueeze(-1), patterns.square().sum(-1).unsqueeze(-2)
        return (2 * queries @ patterns.mT).sub_(of_queries).sub_(of_patterns).clamp_max(0)  # no pass but these

    @override
    def partial(self, patterns: Patterns, queries: Queries) -> Scores:
        scale, (patterns, queries) = extrapolation(patterns, queries), centered(patterns, queries)
        known, stored = filled(queries), filled(patterns)
        of_queries, of_patterns = over_observed(known.square(), patterns), observed(queries) @ stored.square().mT
        return (2 * (known @ stored.mT)).sub_(of_queries).sub_(of_patterns).clamp_max(0) * scale

    @override
    def per_dimension(self, patterns: Patterns, queries: Queries) -> PerDimension:
        difference = queries.unsqueeze(-2) - patterns.unsqueeze(-3)
        if difference.requires_grad:
            return -difference.square()
        return difference.mul_(difference).neg_()
