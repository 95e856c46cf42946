"""Informative missingness: a missing value may say something about the origin."""

from typing import final

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import logsigmoid
from typing_extensions import override

from ahop._core.checks import check_count
from ahop._core.component import Component
from ahop._core.prepared import derived
from ahop._core.tensors import few_columns
from ahop._core.typing import Patterns, PerDimension, Queries, Scores


@final
class Missingness(Component):
    r"""$P(x_i \text{ missing} \mid \xi_i) = \sigma(\ell_i + \delta(\xi_i))$.

    Each dimension has its own rate, and each level of the stored value moves it; "not observed in the pattern either"
    is one more level. With all $\delta = 0$ a gap says nothing.
    """

    base: Tensor
    edges: Tensor
    shifts: Tensor

    def __init__(self, dimensions: int, levels: int = 8) -> None:
        super().__init__()
        self.dimensions, self.levels = check_count("dimensions", dimensions), check_count("levels", levels)
        self.register_buffer("base", torch.full((dimensions,), -5.0))
        self.register_buffer("edges", torch.zeros(dimensions, levels - 1))
        self.register_buffer("shifts", torch.zeros(levels + 1))

    @override
    def configuration(self) -> dict[str, object]:
        return {"dimensions": self.dimensions, "levels": self.levels}

    @property
    def is_evidence(self) -> bool:
        return bool(self.shifts.any())

    def level(self, patterns: Patterns) -> Tensor:
        """The level (n, d) of each stored value; the last is for those that are not there."""
        # In the precision of the edges: a value that an edge was made of must not pass it by its rounding.
        level = (patterns.to(self.edges.dtype).unsqueeze(-1) > self.edges).sum(-1)
        return level.masked_fill(torch.isnan(patterns), self.levels)

    def rates(self, patterns: Patterns) -> Tensor:
        """Probability that each dimension goes missing, (n, d)."""
        return torch.sigmoid(self._log_odds(patterns))

    def evidence_terms(self, patterns: Patterns) -> tuple[Tensor, Tensor]:
        """Log-likelihood ratios of a gap and of a value against the rate of the dimension, (n, d) each."""
        base, moved = self.base.to(patterns.dtype), self._log_odds(patterns)
        return logsigmoid(moved) - logsigmoid(base), logsigmoid(-moved) - logsigmoid(-base)

    def evidence_per_dimension(self, patterns: Patterns, queries: Queries) -> PerDimension:
        """Log-likelihood ratio of each dimension of a query by being there or not, (b, n, d)."""
        if not self.is_evidence:
            # torch's own function of shapes loads a whole algebra system first.
            shape = np.broadcast_shapes(queries.unsqueeze(-2).shape, patterns.unsqueeze(-3).shape)
            return patterns.new_zeros(shape)
        gap, value = self.evidence_terms(patterns)
        return torch.where(torch.isnan(queries).unsqueeze(-2), gap.unsqueeze(-3), value.unsqueeze(-3))

    def evidence(self, patterns: Patterns, queries: Queries) -> Scores:
        """The sum over the dimensions, (b, n), as one matrix product."""
        if not self.is_evidence:
            return patterns.new_zeros(*queries.shape[:-1], patterns.shape[-2])
        moved, complete, empty = derived(patterns, self._of_patterns, self)
        gaps = torch.isnan(queries)
        columns = few_columns(~gaps, moved.shape[-1])
        if columns is None:
            return gaps.to(moved) @ moved + complete.unsqueeze(-2)
        return empty.unsqueeze(-2) - (~gaps[..., columns]).to(moved) @ moved[..., columns, :]

    def _of_patterns(self, patterns: Patterns) -> tuple[Tensor, Tensor, Tensor]:
        """Log-likelihood ratio of a gap over a value, (d, n), and those of queries that have all or nothing, (n,)."""
        gap, value = self.evidence_terms(patterns)
        return (gap - value).mT.contiguous(), value.sum(-1), gap.sum(-1)

    def _log_odds(self, patterns: Patterns) -> Tensor:
        return self.base.to(patterns.dtype) + self.shifts.to(patterns.dtype)[self.level(patterns)]
