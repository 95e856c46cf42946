"""Base classes of similarities."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TypeAlias

import torch
from torch import Tensor
from typing_extensions import override

from ahop._core.blocks import CACHE_BYTES, pair_blocks
from ahop._core.component import Component
from ahop._core.missing import filled, holds_nan, observed
from ahop._core.overlap import shared_dimensions
from ahop._core.prepared import have_gaps
from ahop._core.tensors import all_finite, lowest, saturate
from ahop._core.typing import AnyQueries, Coefficients, Features, Indices, Patterns, PerDimension, Queries, Scores
from ahop.errors import UnsupportedError
from ahop.similarities.contributions import Contributions

Formula: TypeAlias = Callable[[Tensor, Tensor], Tensor]


class Similarity(Component, ABC):
    r"""$s_{bn} = \mathrm{sim}(\xi_n, x_b)$: patterns (n, d) and queries (b, d) to scores (b, n).

    Leading batch axes are allowed on both. `forward` is the formula in the dtype it is given, for complete data.
    Calling the object also mends overflow: what does not fit float32 is computed in float64 and held at the largest
    finite number. And it understands NaN as "not observed", by `partial`: a pair with no dimension that was observed
    on both sides has no evidence for it, and gets the lowest finite number. Compiled, it is `forward` and no more.

    Attributes:
        missing_is_evidence: the formulas themselves know what a NaN says; they get the data as they are, and no score
            is put in the place of theirs.
        query_dimensions: how many columns queries have, where these are others than those of patterns; None if they are
            the same.
        compares_patterns: where data have gaps, a score may depend on the other patterns: score all of them at once,
            or give it the worst scores of all of them by `with_worst`.
    """

    missing_is_evidence: bool = False
    compares_patterns: bool = False
    query_dimensions: int | None = None

    @abstractmethod
    def forward(self, patterns: Patterns, queries: AnyQueries) -> Scores: ...

    def reads_gaps(self, patterns: Patterns, queries: AnyQueries) -> bool:
        """True if `forward` itself handles NaN in this data."""
        return self.missing_is_evidence

    def partial(self, patterns: Patterns, queries: AnyQueries) -> Scores:
        """The formula for data with NaN in it, from what was observed. Pairs that share nothing may get any number."""
        raise UnsupportedError(
            f"{self!r} does not say what it makes of values that were not observed (NaN). Fill them first, or write "
            "its method `partial`."
        )

    def __call__(self, patterns: Patterns, queries: AnyQueries) -> Scores:
        has_gaps = not self.reads_gaps(patterns, queries) and have_gaps(patterns, queries)
        formula = self.partial if has_gaps else super().__call__
        scores: Scores = formula(patterns, queries)
        if not torch.compiler.is_compiling() and not all_finite(scores):
            is_single = scores.dtype != torch.float64
            scores = saturate(formula(patterns.double(), queries.double()), scores.dtype)
            if not is_single:  # what is beyond double precision too is as far as can be
                scores = scores.nan_to_num(lowest(scores.dtype))
        if has_gaps:
            return scores.masked_fill(shared_dimensions(patterns, queries) == 0, lowest(scores.dtype))
        return scores

    def contributions(self, patterns: Patterns, queries: AnyQueries) -> Contributions:
        """Contributions to each score: of dimensions, where these are added up, and of the whole vector."""
        return Contributions.of_whole(type(self).__name__, self(patterns, queries), patterns.shape[-1])

    @property
    def worst_count(self) -> int:
        """Number of worst scores that `with_worst` takes; zero where no score depends on the other patterns."""
        return 0

    def worst_scores(self, patterns: Patterns, queries: AnyQueries) -> Tensor:
        """The worst scores (b, m) that stand for missing ones; infinity for those of which none is known.

        Over patterns that come in parts, their minimum is that of all.
        """
        return queries.new_empty(len(queries), 0)

    def with_worst(self, worst: Tensor) -> "Similarity":
        """Fix the worst scores (b, m) of these very queries: no score depends on other patterns then."""
        return self

    def rows(self, indices: Indices | slice) -> "Similarity":
        """The similarity for some of the stored patterns only. The same object, unless it knows patterns one by one."""
        return self

    def grown(self, count: int) -> "Similarity":
        """The similarity after `count` more patterns are stored behind the others."""
        return self


def over_leading_axes(formula: Formula, patterns: Patterns, queries: AnyQueries) -> Scores:
    """A formula for matrices, on each pair of them in a batch."""
    if patterns.ndim == 2:
        return formula(patterns, queries)
    each = zip(patterns, queries, strict=True)
    return torch.stack([over_leading_axes(formula, *matrices) for matrices in each])


class DecomposableSimilarity(Similarity):
    r"""$\mathrm{sim}(\xi, x) = \sum_i \mathrm{sim}(\xi_i, x_i)$: what a footprint can be made of.

    A dimension that was not observed on both sides counts as the average of those that were.

    Attributes:
        kernel: what the compiled kernels call this similarity, if they know it.
        is_linear: its addends are linear in the query.

    Paper:
        [eqn:decomposable].
    """

    kernel: str | None = None
    is_linear = False

    def as_kernel_sees(self, queries: Queries) -> Queries:
        """The queries for which the kernel of that name gives this similarity."""
        return queries

    @abstractmethod
    def per_dimension(self, patterns: Patterns, queries: Queries) -> PerDimension:
        """The addends (b, n, d) of complete data, in a new tensor that the caller may overwrite."""

    def addends(self, patterns: Patterns, queries: Queries) -> PerDimension:
        """Addends for data with NaN in it: each gap holds the mean of what was observed of its pair, zero if none."""
        if self.missing_is_evidence or not holds_nan(patterns, queries):
            return self.per_dimension(patterns, queries)
        mask = observed(queries).unsqueeze(-2) * observed(patterns).unsqueeze(-3)
        values = self.per_dimension(filled(patterns), filled(queries)) * mask
        mean = values.sum(-1, keepdim=True) / mask.sum(-1, keepdim=True).clamp_min(1)
        return torch.lerp(mean, values, mask)  # exact at both ends

    @override
    def contributions(self, patterns: Patterns, queries: Queries) -> Contributions:
        return Contributions(self.addends(patterns, queries), {})

    def rule_for(self, patterns: Patterns, queries: Queries) -> Formula:
        """The cheaper of the two that is right for this data and any part of it: for those who walk it in blocks."""
        return self.addends if holds_nan(patterns, queries) else self.per_dimension

    @override
    def partial(self, patterns: Patterns, queries: Queries) -> Scores:
        if patterns.ndim > 2:
            return self.addends(patterns, queries).sum(-1)
        scores = queries.new_empty(len(queries), len(patterns))
        pair_bytes = 8 * patterns.shape[1] * patterns.element_size()  # what `addends` holds at a time, roughly
        for rows, columns in pair_blocks(len(queries), len(patterns), pair_bytes, CACHE_BYTES):
            scores[rows, columns] = self.addends(patterns[columns], queries[rows]).sum(-1)
        return scores


class LinearSimilarity(Similarity):
    r"""$s = c^\top f(\xi, x)$: linear in its coefficients, so that fitting them is a convex problem."""

    dimensions: int

    @abstractmethod
    def features(self, patterns: Patterns, queries: Queries) -> Features:
        """Features that the coefficients weigh, (b, n, p). No gradient flows to the data."""

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

    def cone(self) -> tuple[Tensor, Tensor]:
        """Directions (p, p), and which of them must not count negatively (p,), for the energy to fall."""
        raise self._not_sorted()

    def set_mixture(self, weights: Tensor) -> None:
        """Set the coefficients to a mixture of the directions of `cone`, so that no rounding leaves it."""
        raise self._not_sorted()

    def _not_sorted(self) -> UnsupportedError:
        return UnsupportedError(
            f"{self!r} is not sorted, so that `monotone` says nothing about it. Use a footprint, or leave it out."
        )
