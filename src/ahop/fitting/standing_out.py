"""How many queries stand out: what retrieval is worth, where nobody knows the origins."""

from collections.abc import Iterator

import torch
from torch import Generator, Tensor

from ahop._tensors import distinct
from ahop.model import Model
from ahop.scoring import rank
from ahop.similarities.base import Similarity
from ahop.similarities.euclidean import EuclideanSimilarity

# Among more patterns, each query is told apart from those that are near by distance, and from some that are drawn.
MANY_PATTERNS, NEAR, DRAWN = 4096, 256, 1024
# Queries that judge; fewer where each has rivals of its own.
MOST_QUERIES, FEW_QUERIES = 512, 128


@torch.no_grad()
def standing_out(similarity: Similarity, patterns: Tensor, queries: Tensor, shuffled: Tensor) -> Tensor:
    r"""By how much more than chance the best pattern leads, for each query, (b,): from -1 to 1, zero in the mean.

    Of scores that have nothing to do with the query, the largest three satisfy
    $P(s_1 - s_2 > 2 (s_2 - s_3)) = 1/2$: spacings of the largest of many are exponential, the second twice as dense
    as the first (Rényi). An origin leads by more. So twice the share of queries that lead, less one, is about the
    share whose origin came first, whatever the units of the scores. What leads with the shuffled queries too, as a
    pattern does that is close to everything, is taken off.

    Args:
        shuffled: queries that come from no pattern, see `shuffled_dimensions`.
    """
    if len(patterns) < 3:
        return queries.new_zeros(len(queries), dtype=torch.float64)
    most = MOST_QUERIES if len(patterns) <= MANY_PATTERNS else FEW_QUERIES
    asked, others = queries[:most], shuffled[:most]
    return 2 * (_leads(similarity, patterns, asked) - _leads(similarity, patterns, others).mean())


def shuffled_dimensions(queries: Tensor, seed: int) -> Tensor:
    """Queries (b, d) each of whose values is that of another query: nothing of their origins is left together."""
    generator = Generator().manual_seed(seed)
    orders = torch.stack([torch.randperm(len(queries), generator=generator) for _ in range(queries.shape[1])], dim=1)
    return queries.gather(0, orders.to(queries.device))


def _leads(similarity: Similarity, patterns: Tensor, queries: Tensor) -> Tensor:
    """Whether the best of each query leads by more than half of them do by chance, (b,)."""
    if len(patterns) <= MANY_PATTERNS:
        best = rank(Model(similarity), patterns, queries, 3).scores
    else:
        best = torch.stack([_best_of_some(similarity, patterns, *each) for each in _some(patterns, queries)])
    first, second, third = best.double().unbind(-1)
    return (first - second > 2 * (second - third)).double()


def _some(patterns: Tensor, queries: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """Each query, and the rows that it is told apart from."""
    near = rank(Model(EuclideanSimilarity()), patterns, queries, NEAR).ids
    drawn = torch.randint(len(patterns), (DRAWN,), generator=Generator().manual_seed(0)).to(near.device)
    for query, rows in zip(queries, near, strict=True):
        yield query, distinct(torch.cat([rows, drawn]))[0]


def _best_of_some(similarity: Similarity, patterns: Tensor, query: Tensor, rows: Tensor) -> Tensor:
    return similarity(patterns[rows], query.unsqueeze(0))[0].topk(3).values
