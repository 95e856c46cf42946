"""Exponential separation without normalization."""

from math import log
from typing import final

import torch
from typing_extensions import override

from ahop._core.tensors import saturate
from ahop._core.typing import PerQuery, Scores, Weights
from ahop.separations.base import Separation


@final
class Exponential(Separation):
    r"""$\mathrm{sep}(s) = \exp(s)$, potential $\sum_n \exp(s_n)$.

    Exponents that would overflow are held at the largest one that does not.

    Paper:
        Table 1, E-Hop.
    """

    is_distribution = False

    @override
    def forward(self, scores: Scores) -> Weights:
        numbers = torch.finfo(scores.dtype)
        return scores.clamp_max(log(numbers.max) * (1 - numbers.eps)).exp()

    @override
    def potential(self, scores: Scores) -> PerQuery:
        return saturate(self.forward(scores).sum(-1))
