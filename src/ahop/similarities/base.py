"""What a similarity promises."""

from abc import ABC, abstractmethod

import torch
from torch import Tensor

from ahop._component import Component
from ahop._numbers import saturate
from ahop._typing import Coefficients, Features, Indices, Patterns, PerDimension, Queries, Scores


class Similarity(Component, ABC):
    r"""$s_{bn} = \mathrm{sim}(\xi_n, x_b)$: patterns (n, d) and queries (b, d) to scores (b, n).

    Leading batch axes are allowed on both. `forward` is the formula in the dtype it is given; calling the object
    also mends overflow: what does not fit float32 is computed in float64 and held at the largest finite number.
    """

    @abstractmethod
    def forward(self, patterns: Patterns, queries: Queries) -> Scores: ...

    def __call__(self, patterns: Patterns, queries: Queries) -> Scores:
        scores: Scores = super().__call__(patterns, queries)
        if torch.compiler.is_compiling() or bool(torch.isfinite(scores).all()):
            return scores
        wide: Scores = super().__call__(patterns.double(), queries.double())
        return saturate(wide, scores.dtype)

    def rows(self, indices: Indices | slice) -> "Similarity":
        """The similarity for some of the stored patterns only. The same object, unless it knows patterns one by one."""
        return self

    def grown(self, count: int) -> "Similarity":
        """The similarity after `count` more patterns are stored behind the others."""
        return self


class DecomposableSimilarity(Similarity):
    r"""$\mathrm{sim}(\xi, x) = \sum_i \mathrm{sim}(\xi_i, x_i)$: what a footprint can be made of.

    Paper:
        [eqn:decomposable].
    """

    @abstractmethod
    def per_dimension(self, patterns: Patterns, queries: Queries) -> PerDimension:
        """The addends (b, n, d), in a new tensor that the caller may overwrite."""


class LinearSimilarity(Similarity):
    r"""$s = c^\top f(\xi, x)$: linear in its coefficients, so that fitting them is a convex problem."""

    dimensions: int

    @abstractmethod
    def features(self, patterns: Patterns, queries: Queries) -> Features:
        """What the coefficients weigh, (b, n, p). No gradient flows to the data."""

    @property
    @abstractmethod
    def coefficients(self) -> Coefficients: ...

    @abstractmethod
    def set_coefficients(self, coefficients: Coefficients) -> None: ...

    @abstractmethod
    def roughness(self) -> Tensor:
        """A matrix (m, p) whose product with the coefficients is zero for the models to prefer in doubt."""

    @abstractmethod
    def starts(self) -> Tensor:
        """A few coefficient vectors (m, p) whose mixtures are good places to start a fit from."""
