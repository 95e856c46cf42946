"""The squared Euclidean distance, sign turned."""

from typing import final

from torch import Tensor
from typing_extensions import override

from ahop._core.missing import about_center, filled, observed
from ahop._core.overlap import extrapolation, over_observed
from ahop._core.prepared import derived
from ahop._core.tensors import centered
from ahop._core.typing import Patterns, PerDimension, Queries, Scores
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
        center, stored, squares = derived(patterns, _with_lengths)
        asked = queries - center
        products = 2 * asked @ stored.mT
        return products.sub_(asked.square().sum(-1, keepdim=True)).sub_(squares).clamp_max(0)  # no pass but these

    @override
    def partial(self, patterns: Patterns, queries: Queries) -> Scores:
        center, stored, squares = centered_squares(patterns)
        scale, known = extrapolation(patterns, queries), filled(queries - center)
        of_queries, of_patterns = over_observed(known.square(), patterns), observed(queries) @ squares.mT
        return (2 * (known @ stored.mT)).sub_(of_queries).sub_(of_patterns).clamp_max(0) * scale

    @override
    def per_dimension(self, patterns: Patterns, queries: Queries) -> PerDimension:
        difference = queries.unsqueeze(-2) - patterns.unsqueeze(-3)
        if difference.requires_grad:
            return -difference.square()
        return difference.mul_(difference).neg_()


def centered_squares(patterns: Patterns) -> tuple[Tensor, Patterns, Patterns]:
    """The center of the patterns, these about it with zeros in the gaps, and the squares of these: kept with them."""
    return derived(patterns, _with_squares, copies=2)


def _with_lengths(patterns: Patterns) -> tuple[Tensor, Patterns, Tensor]:
    center, stored = centered(patterns)
    return center, stored, stored.square().sum(-1).unsqueeze(-2)


def _with_squares(patterns: Patterns) -> tuple[Tensor, Patterns, Patterns]:
    center, stored = about_center(patterns)
    return center, stored, stored.square()
