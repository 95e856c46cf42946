"""A known likelihood as a similarity."""

from typing import final

import torch
from typing_extensions import override

from ahop._checks import check_kind
from ahop._numbers import saturate
from ahop._typing import Patterns, Queries, Scores
from ahop.similarities.base import Similarity
from ahop.variants.base import Variant


@final
class LikelihoodSimilarity(Similarity):
    r"""$s = \log p_{\mathcal V}(x \mid \xi)$: the similarity that all others try to learn.

    Paper:
        Section 3.1 [sec:var_dis_correct_ret]: the ideal similarity.
    """

    def __init__(self, variant: Variant) -> None:
        super().__init__()
        self.variant = check_kind("variant", variant, Variant)

    @override
    def configuration(self) -> dict[str, object]:
        return {"variant": self.variant}

    @override
    def forward(self, patterns: Patterns, queries: Queries) -> Scores:
        if patterns.ndim > 2:
            return torch.stack([self.forward(*each) for each in zip(patterns, queries, strict=True)])
        return saturate(self.variant.log_likelihood(patterns, queries))
