"""Loss functions."""

import math

import torch
from torch.nn.functional import normalize

from ahop._core.typing import Origins, Patterns, PerQuery, Scores
from ahop.errors import InvalidValueError
from ahop.separations.base import Separation


def fenchel_young_loss(separation: Separation, scores: Scores, origins: Origins) -> PerQuery:
    r"""$\Psi^*(s) - s_k$ for each query with origin $k$: for softmax with $\beta = 1$, $-\log \mathrm{sep}(s)_k$.

    The paper writes $-\log \mathrm{sep}(s)_k$, which is infinite as soon as a sparse separation gives the origin no
    weight. This form is finite for all of them, convex in the scores, and its gradient is $\mathrm{sep}(s) - e_k$.

    Paper:
        [eqn:loss].
    """
    return separation.potential(scores) - scores.gather(-1, origins.unsqueeze(-1)).squeeze(-1)


def separation_loss(projected: Patterns, temperature: float = 2.0) -> torch.Tensor:
    r"""$\log \operatorname{mean}_{i \ne j} \exp(-t \lVert z_i - z_j \rVert^2)$ of the patterns on the unit sphere.

    How K-Hop spreads its patterns: no query and no variant is looked at.
    """
    count = len(projected)
    if count < 2:
        raise InvalidValueError(f"The separation loss is of pairs of patterns: give at least two; got {count}.")
    places = normalize(projected, dim=-1)
    itself = torch.eye(count, dtype=torch.bool, device=projected.device)
    spread = 2 - 2 * (places @ places.mT).masked_fill(itself, -torch.inf)
    return torch.logsumexp(-temperature * spread.flatten(), dim=0) - math.log(count * (count - 1))
