"""The sum of absolute differences, sign turned."""

from typing import final

import torch
from torch import Tensor
from typing_extensions import override

from ahop._core.missing import about_center, filled, observed
from ahop._core.overlap import extrapolation, over_gaps
from ahop._core.prepared import derived
from ahop._core.typing import Patterns, PerDimension, Queries, Scores
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
        center, stored, sizes = derived(patterns, _with_sizes, copies=2)
        asked = filled(queries - center)
        added = over_gaps(asked.abs(), patterns) + (1 - observed(queries)) @ sizes.mT
        return (added - torch.cdist(asked, stored, p=1.0)).clamp_max(0) * extrapolation(patterns, queries)

    @override
    def per_dimension(self, patterns: Patterns, queries: Queries) -> PerDimension:
        return -(queries.unsqueeze(-2) - patterns.unsqueeze(-3)).abs()


def _with_sizes(patterns: Patterns) -> tuple[Tensor, Patterns, Patterns]:
    """The center of the patterns (1, d), these about it with zeros in the gaps, and their sizes (n, d)."""
    center, stored = about_center(patterns)
    return center, stored, stored.abs()
