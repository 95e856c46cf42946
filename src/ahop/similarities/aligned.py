"""A similarity of queries whose offset and gain are removed first."""

from typing import final

import torch
from torch import Tensor
from typing_extensions import override

from ahop._core.checks import check_count
from ahop._core.typing import Patterns, Queries, Scores
from ahop.similarities.base import Similarity
from ahop.similarities.contributions import Contributions
from ahop.similarities.wrapped import WrappedSimilarity


@final
class AlignedSimilarity(WrappedSimilarity):
    r"""$s(\xi, x) = \mathrm{base}(\xi, (x - \mathrm{offset}) / \mathrm{gain})$, dimension by dimension.

    What a device adds to its readings and multiplies them by is taken off before they are compared. Starts as the base
    itself: offset 0, gain 1.
    """

    offset: Tensor
    gain: Tensor

    def __init__(self, base: Similarity, dimensions: int) -> None:
        super().__init__(base)
        self.dimensions = check_count("dimensions", dimensions)
        self.register_buffer("offset", torch.zeros(dimensions))
        self.register_buffer("gain", torch.ones(dimensions))
        self.missing_is_evidence = base.missing_is_evidence

    @override
    def configuration(self) -> dict[str, object]:
        return {"base": self.base, "dimensions": self.dimensions}

    @override
    def forward(self, patterns: Patterns, queries: Queries) -> Scores:
        return self.base.forward(patterns, self.aligned(queries))

    @override
    def partial(self, patterns: Patterns, queries: Queries) -> Scores:
        return self.base.partial(patterns, self.aligned(queries))

    @override
    def contributions(self, patterns: Patterns, queries: Queries) -> Contributions:
        return self.base.contributions(patterns, self.aligned(queries))

    @override
    def reads_gaps(self, patterns: Patterns, queries: Queries) -> bool:
        return self.base.reads_gaps(patterns, queries)

    def aligned(self, queries: Queries) -> Queries:
        """The queries on the scale of the patterns; gaps stay."""
        return (queries - self.offset.to(queries.dtype)) / self.gain.to(queries.dtype)

    @override
    def worst_scores(self, patterns: Patterns, queries: Queries) -> Tensor:
        return self.base.worst_scores(patterns, self.aligned(queries))

    @override
    def with_base(self, base: Similarity) -> "AlignedSimilarity":
        """Wrap another base; itself if that is its own."""
        if base is self.base:
            return self
        other = AlignedSimilarity(base, self.dimensions)
        other.offset, other.gain = self.offset.clone(), self.gain.clone()
        return other
