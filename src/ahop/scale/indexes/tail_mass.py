"""Estimate the probability mass outside the candidates."""

from math import log

import torch
from torch import Tensor

# Of the drawn rows so many stand too high for a few of them to tell how much is there: the fall-off tells it instead.
HIGHEST = 10


def log_tail_mass(lowest: Tensor, candidates: int, drawn: Tensor, outside: int) -> Tensor:
    r"""$\log \sum e^{s}$ over the rows that are no candidates, (b,).

    Between the last candidate and the highest drawn rows, weights are taken to fall by a power of their rank, which has
    an integral in closed form; below, each drawn row stands for as many as were not drawn.

    Args:
        lowest: (b,) score of the last candidate.
        candidates: how many.
        drawn: (b, m) scores of drawn rows; minus infinity for those that are candidates.
        outside: how many rows are no candidates.
    """
    if not outside or not drawn.shape[1]:
        return torch.full_like(lowest, -torch.inf)
    count = (drawn > -torch.inf).sum(-1).clamp_min(1)
    if outside <= drawn.shape[1] - candidates or drawn.shape[1] <= HIGHEST:  # all of them were drawn, or too few
        return torch.logsumexp(drawn, -1) + (outside / count).log().clamp_min(0)
    high = drawn.topk(HIGHEST, dim=-1)
    below = drawn.scatter(-1, high.indices, -torch.inf)
    bulk = torch.logsumexp(below, -1) + (outside / count).log()
    reach = torch.log1p(HIGHEST * outside / count / candidates)  # from the rank of the last candidate, in logarithms
    fall = (lowest - high.values[:, -1]).clamp_min(0)
    between = lowest + log(candidates) + reach.log() + _log_mean_exponential(reach - fall)
    return torch.logaddexp(bulk, between)


def _log_mean_exponential(x: Tensor) -> Tensor:
    r"""$\log \int_0^1 e^{xt} dt = \log \frac{e^x - 1}{x}$."""
    small = x.abs() < 1e-3
    size = x.abs().where(~small, 1.0)
    value = -torch.log(size) + torch.log(-torch.expm1(-size)) + x.clamp_min(0)
    return torch.where(small, 0.5 * x, value)
