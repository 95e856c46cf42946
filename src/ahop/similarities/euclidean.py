"""The squared Euclidean distance, sign turned."""

from typing import final

from torch import Tensor
from torch.nn import Module
from typing_extensions import override

from ahop._derived import derived
from ahop._missing import about_center, filled, observed
from ahop._overlap import extrapolation, over_observed
from ahop._typing import Patterns, PerDimension, Queries, Scores
from ahop.similarities.base import DecomposableSimilarity

# Who makes something of stored patterns for queries with gaps.
WITH_GAPS = Module()


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
        center, stored, squares = derived(patterns, self, lambda: _about_mean(patterns))
        asked = queries - center
        products = 2 * asked @ stored.mT
        return products.sub_(asked.square().sum(-1, keepdim=True)).sub_(squares).clamp_max(0)  # no pass but these

    @override
    def partial(self, patterns: Patterns, queries: Queries) -> Scores:
        center, stored, squares = derived(patterns, WITH_GAPS, lambda: centered_squares(patterns), copies=2)
        scale, known = extrapolation(patterns, queries), filled(queries - center)
        of_queries, of_patterns = over_observed(known.square(), patterns), observed(queries) @ squares.mT
        return (2 * (known @ stored.mT)).sub_(of_queries).sub_(of_patterns).clamp_max(0) * scale

    @override
    def per_dimension(self, patterns: Patterns, queries: Queries) -> PerDimension:
        difference = queries.unsqueeze(-2) - patterns.unsqueeze(-3)
        if difference.requires_grad:
            return -difference.square()
        return difference.mul_(difference).neg_()


def _about_mean(patterns: Patterns) -> tuple[Tensor, Patterns, Tensor]:
    """The center of complete patterns (1, d), these about it (n, d), and their squared lengths (1, n)."""
    center = patterns.detach().mean(-2, keepdim=True)
    stored = patterns - center
    return center, stored, stored.square().sum(-1).unsqueeze(-2)


def centered_squares(patterns: Patterns) -> tuple[Tensor, Patterns, Patterns]:
    """The center of the patterns, these about it with zeros in the gaps, and the squares of these (n, d)."""
    center, stored = about_center(patterns)
    return center, stored, stored.square()
