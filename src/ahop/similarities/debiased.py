"""A similarity of queries whose bias is removed first."""

from typing import final

import torch
from torch import Tensor
from typing_extensions import override

from ahop._core.checks import check_count, check_kind
from ahop._core.typing import Patterns, PerDimension, Queries, Scores
from ahop.similarities.base import DecomposableSimilarity


@final
class DebiasedSimilarity(DecomposableSimilarity):
    r"""$s(\xi, x) = \mathrm{base}(\xi, x - b)$.

    A shift that all queries share is taken off before they are compared. Decomposable, so a footprint can stand on it.
    """

    bias: Tensor

    def __init__(self, base: DecomposableSimilarity, dimensions: int) -> None:
        super().__init__()
        self.base = check_kind("base", base, DecomposableSimilarity)
        self.dimensions = check_count("dimensions", dimensions)
        self.register_buffer("bias", torch.zeros(dimensions))
        self.missing_is_evidence = base.missing_is_evidence
        self.kernel = base.kernel

    @override
    def configuration(self) -> dict[str, object]:
        return {"base": self.base, "dimensions": self.dimensions}

    @override
    def forward(self, patterns: Patterns, queries: Queries) -> Scores:
        return self.base.forward(patterns, self._moved(queries))

    @override
    def partial(self, patterns: Patterns, queries: Queries) -> Scores:
        return self.base.partial(patterns, self._moved(queries))

    @override
    def per_dimension(self, patterns: Patterns, queries: Queries) -> PerDimension:
        return self.base.per_dimension(patterns, self._moved(queries))

    @override
    def as_kernel_sees(self, queries: Queries) -> Queries:
        return self.base.as_kernel_sees(self._moved(queries))

    def _moved(self, queries: Queries) -> Queries:
        return queries - self.bias.to(queries.dtype)
