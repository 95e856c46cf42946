"""The separation of modern Hopfield networks and of attention."""

from typing import final

import torch
from torch import Tensor
from typing_extensions import override

from ahop._checks import check_positive
from ahop._numbers import saturate
from ahop._typing import PerQuery, Scores, Weights
from ahop.separations.base import Separation


@final
class Softmax(Separation):
    r"""$\mathrm{sep}(s) = \mathrm{softmax}(\beta s)$, potential $\beta^{-1}\mathrm{lse}(\beta s)$.

    Paper:
        Table 1, M-Hop and A-Hop.

    Example:
        >>> Softmax(beta=4.0)
        Softmax(beta=4.0)
    """

    def __init__(self, beta: float = 1.0) -> None:
        super().__init__()
        self.beta = check_positive("beta", beta)

    @override
    def configuration(self) -> dict[str, object]:
        return {"beta": self.beta}

    @override
    def forward(self, scores: Scores) -> Weights:
        return torch.softmax(self.beta * below_top(scores)[0], dim=-1)

    @override
    def curvature(self, weights: Weights) -> Weights:
        return self.beta * weights

    @override
    def potential(self, scores: Scores) -> PerQuery:
        below, top = below_top(scores)
        return top.squeeze(-1) + torch.logsumexp(self.beta * below, dim=-1) / self.beta


def below_top(scores: Scores) -> tuple[Scores, Tensor]:
    """The scores as differences to the largest of each query, and that largest one: sharpening cannot overflow then."""
    top = scores.amax(-1, keepdim=True)
    return saturate(scores - top), top
