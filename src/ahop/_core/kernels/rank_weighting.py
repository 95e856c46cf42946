r"""Scores that weigh the dimensions of a pair by rank: $s = \sum_r u_r \tilde q_r$, $\tilde q$ sorted descending.

`ranked_scores_plain` is the formula; `ranked_scores` is the same answer without ever holding all the pairs.
"""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from ahop._core.blocks import CACHE_BYTES, pair_blocks
from ahop._core.kernels.sorting import sort_ascending_
from ahop._core.typing import Patterns, PerDimension, Queries, Scores

PerDimensionRule = Callable[[Tensor, Tensor], Tensor]


def ranked_scores(rule: PerDimensionRule, rank_weights: Tensor, patterns: Patterns, queries: Queries) -> Scores:
    """Scores of each query against each pattern, in blocks unless the values themselves need a gradient.

    Args:
        rule: patterns (n, d), queries (b, d) -> per-dimension similarities (b, n, d), in a new tensor.
        rank_weights: (d,) shared by all patterns, or (n, d) with a row for each.
    """
    if patterns.ndim != 2 or torch.compiler.is_compiling() or _needs_gradient(rule, patterns, queries):
        return ranked_scores_plain(rank_weights, rule(patterns, queries))
    if not (torch.is_grad_enabled() and rank_weights.requires_grad) and not bool(rank_weights.any()):
        return patterns.new_zeros(len(queries), len(patterns))
    scores: Scores = _RankedScores.apply(rank_weights, patterns, queries, rule)  # type: ignore[no-untyped-call]
    return scores


def ranked_scores_plain(rank_weights: Tensor, values: PerDimension) -> Scores:
    """The readable truth that every faster path is checked against."""
    descending = torch.sort(values, dim=-1, descending=True).values
    if rank_weights.ndim == 1:
        return descending @ rank_weights
    return (descending * rank_weights).sum(-1)


class _RankedScores(torch.autograd.Function):
    """Forward and backward walk the pairs in cache-sized blocks; nothing of size (b, n, d) is kept."""

    @staticmethod
    def forward(ctx: Any, rank_weights: Tensor, patterns: Tensor, queries: Tensor, rule: PerDimensionRule) -> Tensor:
        ctx.save_for_backward(rank_weights, patterns, queries)
        ctx.rule = rule
        ascending_weights = rank_weights.flip(-1)
        scores = patterns.new_empty(len(queries), len(patterns))
        for rows, columns, values in _sorted_blocks(rule, patterns, queries):
            if rank_weights.ndim == 1:
                scores[rows, columns] = values @ ascending_weights
            else:
                scores[rows, columns] = torch.einsum("bnd,nd->bn", values, ascending_weights[columns])
        return scores

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None, None]:
        rank_weights, patterns, queries = ctx.saved_tensors
        (gradient,) = gradients
        ascending = torch.zeros_like(rank_weights)
        for rows, columns, values in _sorted_blocks(ctx.rule, patterns, queries):
            part = gradient[rows, columns]
            if rank_weights.ndim == 1:
                ascending += part.reshape(-1) @ values.reshape(-1, values.shape[-1])
            else:
                ascending[columns] += torch.einsum("bn,bnd->nd", part, values)
        return ascending.flip(-1), None, None, None


def _needs_gradient(rule: PerDimensionRule, patterns: Tensor, queries: Tensor) -> bool:
    """True if gradients flow into the values, to the data or to parameters of the rule: an empty block tells."""
    return rule(patterns[:0], queries[:0]).requires_grad


def _sorted_blocks(rule: PerDimensionRule, patterns: Tensor, queries: Tensor) -> Iterator[tuple[slice, slice, Tensor]]:
    row_bytes = patterns.shape[1] * patterns.element_size()
    for rows, columns in pair_blocks(len(queries), len(patterns), row_bytes, CACHE_BYTES):
        yield rows, columns, sort_ascending_(rule(patterns[columns], queries[rows]))
