"""Normmax: weights as even as their norm asks."""

from typing import final

import torch
from torch import Tensor
from typing_extensions import override

from ahop._core.checks import check_positive
from ahop._core.typing import PerQuery, Scores, Weights
from ahop.errors import InvalidValueError
from ahop.separations.base import Separation, with_gradient
from ahop.separations.entmax import positive_power
from ahop.separations.softmax import below_top, sharpened

BISECTIONS = 50


@final
class Normmax(Separation):
    r"""Solves $\max_{p \in \Delta} \beta p^\top s - \lVert p \rVert_\alpha$: sparse, and nearly even where not zero.

    $p_n \propto [\beta s_n - \tau]_+^{1 / (\alpha - 1)}$, $\tau$ such that
    $\sum_n [\beta s_n - \tau]_+^{\alpha / (\alpha - 1)} = 1$ (Santos et al., 2024, arXiv:2402.13725).
    """

    def __init__(self, alpha: float = 2.0, beta: float = 1.0) -> None:
        super().__init__()
        if not alpha > 1:
            raise InvalidValueError(f"`alpha` must be larger than 1; got {alpha!r}.")
        self.alpha, self.beta = check_positive("alpha", alpha), check_positive("beta", beta)

    @override
    def configuration(self) -> dict[str, object]:
        return {"alpha": self.alpha, "beta": self.beta}

    @override
    def forward(self, scores: Scores) -> Weights:
        # Nothing further than 1 below the top can be in the support, so the clamp changes no weight.
        logits = sharpened(below_top(scores)[0], self.beta).clamp_min(-2)
        masses = positive_power(logits - _threshold(logits, self.alpha / (self.alpha - 1)), 1 / (self.alpha - 1))
        return masses / masses.sum(-1, keepdim=True)

    @override
    def potential(self, scores: Scores) -> PerQuery:
        weights = self.forward(scores)
        below, top = below_top(scores.detach())
        fixed = weights.detach()
        norm = torch.linalg.vector_norm(fixed, self.alpha, dim=-1)
        value = top.squeeze(-1) + (fixed * below).sum(-1) - (norm - 1) / self.beta
        return with_gradient(value, scores, weights)


def _threshold(logits: Tensor, power: float) -> Tensor:
    r"""$\tau$ with $\sum [z - \tau]_+^q = 1$, where the largest $z$ is 0."""
    with torch.no_grad():
        low, width = torch.full_like(logits[..., :1], -1.0), 1.0
        for _ in range(BISECTIONS):
            width /= 2
            middle = low + width
            low = torch.where(positive_power(logits - middle, power).sum(-1, keepdim=True) >= 1, middle, low)
        slope = power * positive_power(logits - low, power - 1).sum(-1, keepdim=True)
    # One Newton step, done where gradients see it, gives the threshold its exact derivative.
    return low + (positive_power(logits - low, power).sum(-1, keepdim=True) - 1) / slope
