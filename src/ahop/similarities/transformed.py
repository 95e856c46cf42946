"""A similarity of transformed rows."""

from typing import final

from torch import Tensor
from typing_extensions import override

from ahop._core.checks import check_kind
from ahop._core.prepared import derived
from ahop._core.typing import Patterns, Queries, Scores
from ahop.similarities.base import Similarity
from ahop.similarities.contributions import Contributions
from ahop.similarities.wrapped import WrappedSimilarity
from ahop.transforms.base import Transform
from ahop.transforms.select import SelectTransform


@final
class TransformedSimilarity(WrappedSimilarity):
    r"""$s(\xi, x) = \mathrm{base}(t(\xi), t(x))$.

    The transform gets the data as they are and may say what a gap becomes. Where it leaves gaps, the base does with
    them as it always does: pairs that share nothing behind the transform get the lowest number.
    """

    missing_is_evidence = True

    def __init__(self, base: Similarity, transform: Transform) -> None:
        super().__init__(base)
        self.transform = check_kind("transform", transform, Transform)

    @override
    def configuration(self) -> dict[str, object]:
        return {"base": self.base, "transform": self.transform}

    @override
    def forward(self, patterns: Patterns, queries: Queries) -> Scores:
        return self.base(self._stored(patterns), self.transform(queries))

    @override
    def contributions(self, patterns: Patterns, queries: Queries) -> Contributions:
        """By dimension where the transform keeps these apart, as their number tells."""
        stored, asked = self._stored(patterns), self.transform(queries)
        if isinstance(self.transform, SelectTransform):
            return self.base.contributions(stored, asked).among(self.transform.places, patterns.shape[-1])
        if stored.shape[-1] != patterns.shape[-1]:
            return super().contributions(patterns, queries)
        return self.base.contributions(stored, asked)

    @override
    def worst_scores(self, patterns: Patterns, queries: Queries) -> Tensor:
        return self.base.worst_scores(self._stored(patterns), self.transform(queries))

    def _stored(self, patterns: Patterns) -> Tensor:
        """The patterns behind the transform, which may have another number of dimensions."""
        return derived(patterns, self.transform, self.transform)

    @override
    def with_base(self, base: Similarity) -> "TransformedSimilarity":
        """Wrap another base; itself if that is its own."""
        return self if base is self.base else TransformedSimilarity(base, self.transform)
