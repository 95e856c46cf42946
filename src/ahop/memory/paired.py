"""Scores of each query with a few patterns of its own."""

import torch
from torch import Tensor

from ahop._core.blocks import blocks
from ahop._core.tensors import distinct
from ahop._core.typing import AnyQueries, Patterns
from ahop.memory.likelihood import EvidenceSimilarity, LikelihoodSimilarity
from ahop.similarities.additive import AdditiveSimilarity
from ahop.similarities.aligned import AlignedSimilarity
from ahop.similarities.base import Similarity
from ahop.similarities.forward import ForwardSimilarity
from ahop.similarities.pooled import PooledSimilarity
from ahop.similarities.transformed import TransformedSimilarity
from ahop.variants.base import FactorizedVariant

# Temporaries as large as the patterns of a block, at most.
COPIES = 8


def paired_scores(
    similarity: Similarity, patterns: Patterns, rows: Tensor, queries: AnyQueries, worst: Tensor | None = None
) -> Tensor:
    """The scores (b, c) of each query with the patterns of its rows (b, c).

    Args:
        worst: (b, m) the worst scores of each query, where these rows are part of more; see `worst_scores`.
    """
    each = COPIES * rows.shape[1] * patterns.shape[1] * patterns.element_size()
    parts = [
        _paired(
            similarity if worst is None else similarity.with_worst(worst[part]), patterns, rows[part], queries[part]
        )
        for part in blocks(len(queries), each)
    ]
    return torch.cat(parts) if parts else queries.new_empty(rows.shape)


def _paired(similarity: Similarity, patterns: Patterns, rows: Tensor, queries: AnyQueries) -> Tensor:
    if isinstance(similarity, PooledSimilarity):
        return similarity.combined(_paired(part, patterns, rows, queries) for part in similarity.parts())
    if isinstance(similarity, AlignedSimilarity):
        return _paired(similarity.base, patterns, rows, similarity.aligned(queries))
    if isinstance(similarity, TransformedSimilarity) and similarity.rows(rows.flatten()[:1]) is similarity:
        chosen, places = distinct(rows)
        behind = similarity.transform(patterns[chosen]), similarity.transform(queries)
        return _paired(similarity.base, behind[0], places, behind[1])
    if similarity.rows(rows[0]) is not similarity:  # it knows patterns one by one
        pairs = zip(rows, queries, strict=True)
        each = [similarity.rows(own)(patterns[own], query.unsqueeze(0)) for own, query in pairs]
        return torch.cat(each)
    variant = getattr(similarity, "variant", None)
    if isinstance(similarity, EvidenceSimilarity | LikelihoodSimilarity) and isinstance(variant, FactorizedVariant):
        return variant.paired_evidence(patterns, rows, queries)
    if isinstance(similarity, ForwardSimilarity):
        return similarity.paired(patterns, rows, queries)
    stored, asked = patterns[rows], queries.unsqueeze(1)
    if isinstance(similarity, AdditiveSimilarity):
        return similarity.per_dimension(stored, asked).sum(-1).squeeze(1)
    return similarity(stored, asked).squeeze(1)
