"""The lifting that brings candidates: of the similarity, or of the pool members that have one."""

import torch
from torch import Tensor

from ahop._core.typing import Queries
from ahop.errors import UnsupportedError
from ahop.scale.liftings.base import Lifting
from ahop.scale.liftings.lift import WEIGHED, lift
from ahop.scale.liftings.wrapping import MovedLifting, SumLifting, TransformedLifting
from ahop.similarities.aligned import AlignedSimilarity
from ahop.similarities.base import Similarity
from ahop.similarities.pooled import PooledSimilarity
from ahop.similarities.transformed import TransformedSimilarity


def lift_for_candidates(
    similarity: Similarity, patterns: Tensor, queries: Queries | None, *, tolerance: float, gaps: bool | None = None
) -> Lifting:
    """The lifting of a similarity; of a pool with members that have none, that of the others.

    Raises:
        UnsupportedError: nothing in it can be lifted.
    """
    try:
        return lift(similarity, patterns, queries, tolerance=tolerance, gaps=gaps)
    except UnsupportedError as error:
        if not _holds_pool(similarity):
            raise
        found = _of_members(similarity, _some(patterns), queries, tolerance, gaps)
        if found is None:
            raise UnsupportedError(
                f"No member of {similarity!r} can be lifted, so none can bring candidates. Add a member that can, such "
                "as a fitted mixture, or give one as `candidate_similarity`; exact scores of the pool rerank them."
            ) from error
    return SumLifting([found], is_whole=False)


def _of_members(
    similarity: Similarity, patterns: Tensor, queries: Queries | None, tolerance: float, gaps: bool | None
) -> Lifting | None:
    """The lifting of what can be lifted; None if nothing can."""
    if isinstance(similarity, PooledSimilarity):
        weighed = [
            (weight, part) for weight, part in zip(similarity.weights, similarity.parts(), strict=True) if weight
        ]
        found = [(weight, _of_members(part, patterns, queries, tolerance, gaps)) for weight, part in weighed]
        kept = [(weight, part) for weight, part in found if part is not None]
        if not kept:
            return None
        total = SumLifting([part for _, part in kept])
        total.weights.copy_(torch.stack([weight for weight, _ in kept]))
        return total
    if isinstance(similarity, AlignedSimilarity):
        aligned = None if queries is None else similarity.aligned(queries)
        base = _of_members(similarity.base, patterns, aligned, tolerance, gaps)
        return base and MovedLifting.of(base, similarity.offset, similarity.gain)
    if isinstance(similarity, TransformedSimilarity):
        transform = similarity.transform
        behind = transform(patterns), None if queries is None else transform(queries)
        base = _of_members(similarity.base, *behind, tolerance, False if transform.fills_gaps else gaps)
        return base and TransformedLifting(base, transform)
    try:
        return lift(similarity, patterns, queries, tolerance=tolerance, gaps=gaps)
    except UnsupportedError:
        return None


def _holds_pool(similarity: Similarity) -> bool:
    if isinstance(similarity, AlignedSimilarity | TransformedSimilarity):
        return _holds_pool(similarity.base)
    return isinstance(similarity, PooledSimilarity)


def _some(patterns: Tensor) -> Tensor:
    """As many as a lifting is measured on."""
    if len(patterns) <= WEIGHED:
        return patterns
    return patterns[torch.randint(len(patterns), (WEIGHED,), generator=torch.Generator().manual_seed(0))]
