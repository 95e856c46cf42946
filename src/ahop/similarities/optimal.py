"""The similarities that the paper proves optimal, for variants whose parameters are known.

With `Argmax` they make the retrieval of [thm:ret-dyn] correct for every query; the proofs are in [apd:proof-optimal].
"""

import torch

from ahop._core.typing import Vector
from ahop.similarities.match import MatchSimilarity
from ahop.similarities.unified import UnifiedSimilarity


def optimal_for_noisy(variance: Vector) -> UnifiedSimilarity:
    r"""$s = -\sum_i (\xi_i - x_i)^2 / \sigma_i$: the Mahalanobis distance of independent noise.

    Paper:
        [lem:opt-noisy]. Its weights over unsorted $q$, $u_i = -1/\sigma_i$, are the precisions here.
    """
    similarity = UnifiedSimilarity(len(variance))
    with torch.no_grad():
        similarity.precision.copy_(1 / variance)
    return similarity


def optimal_for_masked() -> MatchSimilarity:
    """The number of dimensions that agree exactly; see `MatchSimilarity`."""
    return MatchSimilarity()


def optimal_for_biased(bias: Vector) -> UnifiedSimilarity:
    r"""$s = -\lVert x - \xi \rVert^2 + 2 d^\top (x - \xi)$, which is $-\lVert x - \xi - d \rVert^2$ up to a constant.

    Paper:
        [lem:opt-biased], $u = 2d$.
    """
    similarity = UnifiedSimilarity(len(bias))
    with torch.no_grad():
        similarity.slope.copy_(2 * bias)
    return similarity
