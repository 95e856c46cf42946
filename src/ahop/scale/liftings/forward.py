"""A pattern as what another space makes of it: an inner product, and one number."""

from typing import final

import torch
from torch import Tensor
from typing_extensions import override

from ahop._core.checks import check_kind
from ahop._core.missing import holds_nan
from ahop._core.typing import Patterns, Queries
from ahop.errors import UnsupportedError
from ahop.scale.liftings.base import Lifting
from ahop.similarities.forward import ForwardSimilarity


@final
class ForwardLifting(Lifting):
    r"""$c(\xi) = (\xi - c, -\tfrac12 v^\top P v)$ and $a(x) = (A^\top P (x - m), 1)$."""

    def __init__(self, similarity: ForwardSimilarity) -> None:
        super().__init__()
        self.similarity = check_kind("similarity", similarity, ForwardSimilarity)
        self.size = similarity.dimensions + 1

    @override
    def configuration(self) -> dict[str, object]:
        return {"similarity": self.similarity}

    @override
    def _lift_patterns(self, patterns: Patterns) -> Tensor:
        return self.similarity.with_bias(patterns)

    @override
    def _lift_queries(self, queries: Queries) -> Tensor:
        if holds_nan(queries):
            raise UnsupportedError(
                "A query of another space that was not wholly observed (NaN) is a Gaussian for each mask and cannot be "
                "lifted. Recall without an index, or fill it."
            )
        images = self.similarity.images(queries)
        return torch.cat([images, images.new_ones(len(images), 1)], dim=-1)
