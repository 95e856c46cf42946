"""Images of stored patterns in another space, with correlated noise."""

from typing import final

import torch
from torch import Generator, Tensor
from typing_extensions import override

from ahop._core.checks import check_count
from ahop._core.missing import filled, holds_nan
from ahop._core.prepared import derived, worth_preparing
from ahop._core.tensors import distinct
from ahop._core.typing import AnyQueries, Patterns, Scores
from ahop.similarities.base import Similarity, over_leading_axes
from ahop.similarities.contributions import Contributions


@final
class ForwardSimilarity(Similarity):
    r"""$s(\xi, x) = (x - m)^\top P v - \tfrac12 v^\top P v$ with $v = A (\xi - c)$.

    The log-likelihood of a query that is $m + v$ and noise of precision $P$, up to a number for each query: queries of
    another model, or on another instrument's grid, of other columns than patterns. In $\xi$ it is an inner product with
    $A^\top P (x - m)$ and one number for each pattern.

    What a query has not got (NaN) is integrated out. What a pattern has not got counts as the center, $c$.

    Args:
        dimensions: of patterns.
        query_dimensions: how many columns queries have; None if they are those of patterns.
    """

    missing_is_evidence = True
    slopes: Tensor
    precision: Tensor
    center: Tensor
    mean: Tensor

    def __init__(self, dimensions: int, query_dimensions: int | None = None) -> None:
        super().__init__()
        self.dimensions = check_count("dimensions", dimensions)
        known = None if query_dimensions is None else check_count("query_dimensions", query_dimensions)
        self.query_dimensions, width = known, known or self.dimensions
        self.register_buffer("slopes", torch.eye(width, self.dimensions))
        self.register_buffer("precision", torch.eye(width))
        self.register_buffer("center", torch.zeros(self.dimensions))
        self.register_buffer("mean", torch.zeros(width))

    @override
    def configuration(self) -> dict[str, object]:
        return {"dimensions": self.dimensions, "query_dimensions": self.query_dimensions}

    @override
    def forward(self, patterns: Patterns, queries: AnyQueries) -> Scores:
        if holds_nan(queries):
            return over_leading_axes(self._marginal, patterns, queries)
        stored = derived(patterns, self.with_bias, self)
        return self.images(queries) @ stored[..., :-1].mT + stored[..., -1].unsqueeze(-2)

    def images(self, queries: AnyQueries) -> Tensor:
        r"""$A^\top P (x - m)$, (b, d): where a query stands among the stored patterns about their center."""
        return (queries - self.mean.to(queries)) @ self.precision.to(queries) @ self.slopes.to(queries)

    def with_bias(self, patterns: Patterns) -> Tensor:
        r"""$\xi - c$ and $-\tfrac12 v^\top P v$, (n, d + 1)."""
        about, slopes = self._about(patterns), self.slopes.to(patterns)
        square = slopes.mT @ self.precision.to(about) @ slopes
        bias = -0.5 * ((about @ square) * about).sum(-1, keepdim=True)
        return torch.cat([about, bias], dim=-1)

    def paired(self, patterns: Patterns, rows: Tensor, queries: Tensor) -> Tensor:
        """The scores (b, c) of each query with the patterns of its rows (b, c)."""
        if holds_nan(queries):
            scores: Tensor = self(patterns[rows], queries.unsqueeze(1))
            return scores.squeeze(1)
        if worth_preparing(patterns):
            stored: Tensor = derived(patterns, self.with_bias, self)[rows]
        else:
            chosen, places = distinct(rows)
            stored = self.with_bias(patterns[chosen])[places]
        return (stored[..., :-1] @ self.images(queries).unsqueeze(-1)).squeeze(-1) + stored[..., -1]

    def drawn(self, patterns: Patterns, generator: Generator) -> AnyQueries:
        r"""Queries $m + A (\xi - c) + e$ with noise of precision $P$."""
        about = self._about(patterns)
        factor = torch.linalg.cholesky(self.precision.double())
        noise = torch.randn(len(factor), len(about), generator=generator, dtype=torch.float64).to(factor)
        noise = torch.linalg.solve_triangular(factor.mT, noise, upper=True).mT
        queries: AnyQueries = self.mean.to(about) + about @ self.slopes.to(about).mT + noise.to(about)
        return queries

    @override
    def contributions(self, patterns: Patterns, queries: AnyQueries) -> Contributions:
        """Evidence of each column of the patterns."""
        if holds_nan(queries):
            return super().contributions(patterns, queries)
        about = self._about(patterns)
        halves = 0.5 * about @ self.slopes.to(about).mT @ self.precision.to(about) @ self.slopes.to(about)
        return Contributions((self.images(queries).unsqueeze(-2) - halves.unsqueeze(-3)) * about.unsqueeze(-3), {})

    def _about(self, patterns: Patterns) -> Tensor:
        return filled(patterns - self.center.to(patterns))

    def _marginal(self, patterns: Patterns, queries: AnyQueries) -> Scores:
        """Query by query: the precision of what was observed, $P_{oo} - P_{om} P_{mm}^{-1} P_{mo}$."""
        expected = self._about(patterns) @ self.slopes.to(patterns).mT
        precision, scores = self.precision.to(queries), []
        for row in queries - self.mean.to(queries):
            gap = row.isnan()
            rest, lost = precision[~gap][:, ~gap], precision[~gap][:, gap]
            if bool(gap.any()):
                rest = rest - lost @ torch.linalg.solve(precision[gap][:, gap], lost.mT)
            own = expected[..., ~gap]
            scores.append(((row[~gap] - 0.5 * own) @ rest * own).sum(-1))
        return torch.stack(scores) if scores else queries.new_empty(0, len(patterns))
