"""The base class of similarities around another one."""

from abc import abstractmethod

from torch import Tensor
from typing_extensions import override

from ahop._core.checks import check_kind
from ahop._core.typing import Indices
from ahop.similarities.base import Similarity


class WrappedSimilarity(Similarity):
    """A similarity of changed data: weights of patterns and worst scores are those of the base."""

    def __init__(self, base: Similarity) -> None:
        super().__init__()
        self.base = check_kind("base", base, Similarity)
        self.compares_patterns = base.compares_patterns

    @abstractmethod
    def with_base(self, base: Similarity) -> "WrappedSimilarity":
        """Wrap another base; itself if that is its own."""

    @property
    @override
    def worst_count(self) -> int:
        return self.base.worst_count

    @override
    def with_worst(self, worst: Tensor) -> "WrappedSimilarity":
        return self.with_base(self.base.with_worst(worst))

    @override
    def rows(self, indices: Indices | slice) -> "WrappedSimilarity":
        return self.with_base(self.base.rows(indices))

    @override
    def grown(self, count: int) -> "WrappedSimilarity":
        return self.with_base(self.base.grown(count))
