"""Do two halves of a query name the same pattern? What retrieval is worth, where nobody knows the origins."""

import torch
from torch import Generator, Tensor

from ahop._tensors import distinct
from ahop.model import Model
from ahop.scoring import rank
from ahop.similarities.base import Similarity
from ahop.similarities.euclidean import EuclideanSimilarity

# Ways in which the dimensions are split, and queries that are asked.
SPLITS, MOST_QUERIES = 4, 256
# Among more patterns, halves choose between those that are near to any query, so many of each, and some that are drawn.
MANY_PATTERNS, NEAR, DRAWN = 4096, 4, 2048


@torch.no_grad()
def agreement(similarity: Similarity, patterns: Tensor, queries: Tensor) -> Tensor:
    r"""How far halves of each query agree beyond chance, (b,): 1 if both name the same pattern, 0 if they know nothing.

    The dimensions are split at random. What one half names first has rank $r$ for the other half, and $1 / r$ counts;
    less what it counts for the other half of the next query, so that a pattern that is close to everything counts
    nothing. Halves that know nothing of the origin cannot agree, whatever the units and the form of the scores: the
    similarity under which they agree most often is the one that finds most.
    """
    asked = queries[:MOST_QUERIES]
    if len(asked) < 2 or len(patterns) < 2 or patterns.shape[1] < 2:
        return asked.new_zeros(len(asked), dtype=torch.float64)
    rows = _rows(patterns, asked)
    chosen, stored = similarity.rows(rows), patterns[rows]
    generator, total = Generator().manual_seed(0), asked.new_zeros(len(asked), dtype=torch.float64)
    for _ in range(SPLITS):
        first = (torch.randperm(asked.shape[1], generator=generator) % 2 == 0).to(asked.device)
        one, other = (chosen(stored, asked.masked_fill(hidden, torch.nan)) for hidden in (first, ~first))
        total += _agreed(one, other) + _agreed(other, one)
    return total / (2 * SPLITS)


def _agreed(one: Tensor, other: Tensor) -> Tensor:
    """What the best of one half's scores (b, n) is to the other half, (b,), beyond what it is to that of the next."""
    named = one.argmax(-1, keepdim=True)
    return _share(other, named) - _share(other.roll(1, 0), named)


def _share(scores: Tensor, named: Tensor) -> Tensor:
    """One over the rank of a pattern, ties in the middle."""
    own = scores.gather(-1, named)
    above, beside = (scores > own).sum(-1), (scores == own).sum(-1) - 1
    return 1 / (1 + above + 0.5 * beside).double()


def _rows(patterns: Tensor, queries: Tensor) -> Tensor:
    """The patterns that halves choose between."""
    if len(patterns) <= MANY_PATTERNS:
        return torch.arange(len(patterns), device=patterns.device)
    near = rank(Model(EuclideanSimilarity()), patterns, queries, NEAR).ids.flatten()
    drawn = torch.randint(len(patterns), (DRAWN,), generator=Generator().manual_seed(0))
    return distinct(torch.cat([near, drawn.to(near)]))[0]
