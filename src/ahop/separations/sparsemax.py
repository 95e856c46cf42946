"""Sparsemax: the nearest point of the simplex."""

from typing import final

import torch
from typing_extensions import override

from ahop._core.checks import check_positive
from ahop._core.typing import PerQuery, Scores, Weights
from ahop.separations.base import Separation, with_gradient
from ahop.separations.softmax import below_top


@final
class Sparsemax(Separation):
    r"""Solves $\max_{p \in \Delta} \beta p^\top s - \tfrac12 \lVert p \rVert^2$: weights that can be exactly zero.

    Paper:
        Table 1, S-Hop, potential $\Psi^*_2$.
    """

    def __init__(self, beta: float = 1.0) -> None:
        super().__init__()
        self.beta = check_positive("beta", beta)

    @override
    def configuration(self) -> dict[str, object]:
        return {"beta": self.beta}

    @override
    def forward(self, scores: Scores) -> Weights:
        # Nothing further than 1 below the top can be in the support, so the clamp changes no weight.
        logits = (self.beta * below_top(scores)[0]).clamp_min(-2)
        descending = torch.sort(logits, dim=-1, descending=True).values
        sizes = torch.arange(1, logits.shape[-1] + 1, dtype=logits.dtype, device=logits.device)
        supported = descending * sizes > descending.cumsum(-1) - 1
        size = supported.sum(-1, keepdim=True)
        threshold = ((descending * supported).sum(-1, keepdim=True) - 1) / size
        return (logits - threshold).clamp_min(0)

    @override
    def curvature(self, weights: Weights) -> Weights:
        return self.beta * (weights > 0).to(weights.dtype)

    @override
    def potential(self, scores: Scores) -> PerQuery:
        weights = self.forward(scores)
        below, top = below_top(scores.detach())
        fixed = weights.detach()
        value = top.squeeze(-1) + (fixed * below).sum(-1) - (fixed.square().sum(-1) - 1) / (2 * self.beta)
        return with_gradient(value, scores, weights)
