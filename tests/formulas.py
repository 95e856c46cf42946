"""Similarities written out for one pair at a time, from the addends of their base: slow, and easy to believe."""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import torch
from torch import Tensor
from torch.testing import assert_close

import ahop
from ahop.similarities.base import DecomposableSimilarity, Similarity
from ahop.similarities.footprint import FootprintSimilarity, rank_weights_of
from tests.strategies import Problem

# A base, a pattern (d,) and a query (d,) -> what each dimension adds, (d,).
Addends: TypeAlias = Callable[[Any, Tensor, Tensor], Tensor]


def score_of(addends: Addends, similarity: Similarity, row: int, pattern: Tensor, query: Tensor) -> Tensor:
    """The score of one pair, whose pattern is stored in that row."""

    def ranked(base: DecomposableSimilarity, subspace_weights: Tensor) -> Tensor:
        descending = addends(base, pattern, query).sort(descending=True).values
        return descending @ rank_weights_of(subspace_weights).to(descending)

    match similarity:
        case (
            ahop.similarities.CosineSimilarity()
            | ahop.similarities.CorrelationSimilarity()
            | ahop.similarities.SorensenSimilarity()
        ):
            shared = ~pattern.isnan() & ~query.isnan()
            return similarity.forward(pattern[shared].unsqueeze(0), query[shared].unsqueeze(0)).squeeze()
        case ahop.similarities.AlignedSimilarity():
            return score_of(addends, similarity.base, row, pattern, (query - similarity.offset) / similarity.gain)
        case ahop.similarities.FootprintSimilarity():
            return ranked(similarity.base, similarity.weights)
        case ahop.AdaptiveSimilarity():
            parts = [part for part in similarity.footprints if isinstance(part, FootprintSimilarity)]
            terms = [ranked(part.base, part.weights) for part in parts]
            return (similarity.betas.to(pattern) * torch.stack(terms)).sum()
        case ahop.similarities.IsolatedSimilarity():
            bases = [base for base in similarity.bases if isinstance(base, DecomposableSimilarity)]
            return torch.stack([ranked(base, similarity.weights[k, row]) for k, base in enumerate(bases)]).sum()
    return addends(similarity, pattern, query).sum()


def assert_leading_axes_are_a_loop(similarity: Similarity, cases: Sequence[Problem]) -> None:
    patterns = torch.stack([case.patterns for case in cases])
    queries = torch.stack([case.queries for case in cases])
    looped = torch.stack([similarity(case.patterns, case.queries) for case in cases])
    assert_close(similarity(patterns, queries), looped)
    assert_close(similarity(patterns[:, None], queries[:, None]), looped[:, None])
