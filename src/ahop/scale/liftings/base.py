"""Base class of liftings."""

from abc import ABC, abstractmethod

import torch
from jaxtyping import Float
from torch import Tensor

from ahop._core.blocks import blocks
from ahop._core.component import Component
from ahop._core.free_memory import check_free_memory
from ahop._core.missing import filled, holds_nan, observed
from ahop._core.typing import Patterns, Queries
from ahop.errors import UnsupportedError


class Lifting(Component, ABC):
    r"""$\mathrm{sim}(\xi, x) \approx a(x)^\top c(\xi) + \text{a number for each query}$.

    Patterns are lifted once, each query when it comes, and any engine for largest inner products serves the similarity.

    Attributes:
        size: the number of lifted dimensions.
        is_distance: the last coordinate of a lifted pattern is $-\lVert u \rVert^2 / 2$ of the others and that of a
            query is 1, so that the nearest $u$ is the best answer.
        is_whole: all of the similarity was lifted, and not only those members of a pool that bring its candidates.
        rms_error: of a score, in its own units and up to the number for each query, where it was measured.
        largest_error: the largest there.
    """

    size: int
    is_distance: bool = False
    is_whole: bool = True
    measured: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("measured", torch.zeros(2, dtype=torch.float64))

    @abstractmethod
    def _lift_patterns(self, patterns: Patterns) -> Tensor:
        """The lifted patterns of one block."""

    @abstractmethod
    def _lift_queries(self, queries: Queries) -> Tensor: ...

    @property
    def rms_error(self) -> float:
        return float(self.measured[0])

    @property
    def largest_error(self) -> float:
        return float(self.measured[1])

    @torch.no_grad()
    def lift_patterns(self, patterns: Patterns) -> Float[Tensor, "n lifted"]:
        """In blocks; the whole must fit the memory that is free, and is refused before any is taken."""
        row = self.size * patterns.element_size()
        check_free_memory(len(patterns) * row, f"{len(patterns)} patterns of {self.size} lifted dimensions")
        lifted = patterns.new_empty(len(patterns), self.size)
        for rows in blocks(len(patterns), 8 * row):
            lifted[rows] = self._lift_patterns(patterns[rows])
        return lifted

    @torch.no_grad()
    def lift_queries(self, queries: Queries) -> Float[Tensor, "b lifted"]:
        return self._lift_queries(queries)


def refuse_gaps(patterns: Patterns) -> None:
    if holds_nan(patterns):
        raise UnsupportedError(
            "Patterns that were not wholly observed (NaN) cannot be lifted here: what a pair shares depends on both. "
            "Fill them, or fit a similarity that says what a gap means: `similarity='mixture'` or `'additive'`."
        )


def scaled_up(lifted: Tensor, queries: Queries) -> Tensor:
    """Scale the observed part of a query up to stand for all of it, as in its exact scores."""
    if not holds_nan(queries):
        return lifted
    return lifted * (queries.shape[1] / observed(queries).sum(-1, keepdim=True).clamp_min(1))


def complete(queries: Queries) -> Queries:
    """The queries with zeros in their gaps."""
    return filled(queries) if holds_nan(queries) else queries
