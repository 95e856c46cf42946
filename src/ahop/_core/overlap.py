"""Overlap of a query and a pattern: entries observed on both sides."""

from torch import Tensor

from ahop._core.missing import observed
from ahop._core.prepared import has_gaps
from ahop._core.typing import Patterns, Queries


def over_observed(values: Tensor, patterns: Patterns) -> Tensor:
    """The sums of values (b, d) over what was observed of each pattern: (b, n), or (b, 1) if that is everything."""
    if not has_gaps(patterns):
        return values.sum(-1, keepdim=True)
    return values @ observed(patterns).to(values.dtype).mT


def over_gaps(values: Tensor, patterns: Patterns) -> Tensor:
    """The sums of values (b, d) over what was not observed of each pattern: (b, n), or zeros (b, 1) without gaps."""
    if not has_gaps(patterns):
        return values.new_zeros(*values.shape[:-1], 1)
    return values @ (1 - observed(patterns)).to(values.dtype).mT


def shared_dimensions(patterns: Patterns, queries: Queries) -> Tensor:
    """Number of dimensions observed on both sides of each pair: (b, n), or (b, 1) if the patterns are complete."""
    return over_observed(observed(queries), patterns)


def extrapolation(patterns: Patterns, queries: Queries) -> Tensor:
    """Factor from the sum over the shared dimensions of a pair to all of them; where none is shared, any number."""
    return patterns.shape[-1] / shared_dimensions(patterns, queries).clamp_min(1)
