"""A likelihood as a similarity: known, or learned from pairs."""

from typing import final

from typing_extensions import override

from ahop._core.checks import check_kind
from ahop._core.tensors import saturate
from ahop._core.typing import Patterns, PerDimension, Queries, Scores
from ahop.similarities.base import DecomposableSimilarity, Similarity, over_leading_axes
from ahop.similarities.contributions import Contributions
from ahop.variants.base import FactorizedVariant, Variant
from ahop.variants.heteroscedastic import HeteroscedasticVariant
from ahop.variants.mixture import MixtureVariant
from ahop.variants.nuisance import NuisanceVariant


@final
class LikelihoodSimilarity(Similarity):
    r"""$s = \log p_{\mathcal V}(x \mid \xi)$: the similarity that all others try to learn.

    A fitted variant also knows how likely the query is if no stored pattern is its origin, and $s$ is what the pattern
    adds to that.

    Paper:
        Section 3.1 [sec:var_dis_correct_ret]: the ideal similarity.
    """

    def __init__(self, variant: Variant) -> None:
        super().__init__()
        self.variant = check_kind("variant", variant, Variant)
        self.missing_is_evidence = variant.handles_missing

    @override
    def configuration(self) -> dict[str, object]:
        return {"variant": self.variant}

    @override
    def forward(self, patterns: Patterns, queries: Queries) -> Scores:
        return saturate(over_leading_axes(self.variant.evidence, patterns, queries))

    @override
    def contributions(self, patterns: Patterns, queries: Queries) -> Contributions:
        """Evidence of each dimension; alone under a nuisance, and how much of it moved together with others."""
        if isinstance(self.variant, HeteroscedasticVariant):
            dimensions, is_kept = self.variant.evidence_and_kept(patterns, queries)
            return Contributions(dimensions, {}, is_kept)
        if not isinstance(self.variant, NuisanceVariant):
            return super().contributions(patterns, queries)
        alone = self.variant.noise_per_dimension(patterns, queries)
        return Contributions(alone, {"moved together": self(patterns, queries) - alone.sum(-1)})


@final
class EvidenceSimilarity(DecomposableSimilarity):
    r"""$s = \sum_i \log p(x_i \mid \xi_i) - \log p_0(x_i)$, for corruption that acts on each dimension alone.

    Zero where a dimension says nothing, because it was not observed or because the stored value is as likely as any.
    Decomposable, so a footprint can stand on it.
    """

    missing_is_evidence = True

    def __init__(self, variant: FactorizedVariant) -> None:
        super().__init__()
        self.variant = check_kind("variant", variant, FactorizedVariant)

    @override
    def configuration(self) -> dict[str, object]:
        return {"variant": self.variant}

    @override
    def forward(self, patterns: Patterns, queries: Queries) -> Scores:
        return saturate(over_leading_axes(self.variant.evidence, patterns, queries))

    @override
    def per_dimension(self, patterns: Patterns, queries: Queries) -> PerDimension:
        return self.variant.evidence_per_dimension(patterns, queries)

    @override
    def contributions(self, patterns: Patterns, queries: Queries) -> Contributions:
        """Evidence of each dimension; for a mixture, also the entries that were kept."""
        if not isinstance(self.variant, MixtureVariant):
            return super().contributions(patterns, queries)
        dimensions, is_kept = self.variant.evidence_and_kept(patterns, queries)
        return Contributions(dimensions, {}, is_kept)
