"""Entmax: the family between softmax and sparsemax."""

from typing import final

import torch
from torch import Tensor, nn
from typing_extensions import override

from ahop._checks import check_positive
from ahop._typing import PerQuery, Scores, Weights
from ahop.errors import InvalidValueError
from ahop.separations.base import Separation, with_gradient
from ahop.separations.softmax import below_top

BISECTIONS = 60


@final
class Entmax(Separation):
    r"""Solves $\max_{p \in \Delta} \beta p^\top s - \Omega_\alpha(p)$.

    $\Omega_\alpha(p) = (\sum_n p_n^\alpha - 1) / \alpha(\alpha - 1)$ is Tsallis' entropy with its sign turned.
    $\alpha \to 1$ is softmax and $\alpha = 2$ sparsemax; between them weights are smooth and can be zero.
    With `learnable=True`, alpha is a parameter kept inside (1, 2).

    Paper:
        Table 1, K-Hop, potential $\Psi^*_\alpha$.
    """

    def __init__(self, alpha: float = 1.5, beta: float = 1.0, learnable: bool = False) -> None:
        super().__init__()
        if not 1 < alpha <= 2 or (learnable and alpha == 2):
            raise InvalidValueError(
                f"`alpha` must lie in (1, 2], and below 2 where it is learned; got {alpha!r}. "
                "For alpha = 1 use `Softmax`."
            )
        self.learnable = learnable
        self.beta = check_positive("beta", beta)
        start = torch.tensor(float(alpha))
        self._alpha: Tensor
        if learnable:
            self._alpha = nn.Parameter(torch.logit(start - 1))
        else:
            self.register_buffer("_alpha", start)

    @property
    def alpha(self) -> Tensor:
        return 1 + torch.sigmoid(self._alpha) if self.learnable else self._alpha

    @override
    def configuration(self) -> dict[str, object]:
        return {"alpha": round(float(self.alpha), 6), "beta": self.beta, "learnable": self.learnable}

    @override
    def forward(self, scores: Scores) -> Weights:
        return _weights(self.beta * below_top(scores)[0], self.alpha.to(scores.dtype))

    @override
    def curvature(self, weights: Weights) -> Weights:
        return self.beta * _power(weights, 2 - self.alpha.detach().to(weights.dtype))

    @override
    def potential(self, scores: Scores) -> PerQuery:
        weights = self.forward(scores)
        alpha = self.alpha.to(scores.dtype)
        below, top = below_top(scores.detach())
        fixed = weights.detach()
        # The tangent in alpha comes from the entropy alone, by the same theorem that gives it for the scores.
        entropy = (_power(fixed, alpha).sum(-1) - 1) / (alpha * (alpha - 1))
        value = top.squeeze(-1) + (fixed * below).sum(-1) - entropy / self.beta
        return with_gradient(value, scores, weights)


def _weights(logits: Tensor, alpha: Tensor) -> Tensor:
    r"""$[(\alpha - 1) z - \tau]_+^{1/(\alpha - 1)}$ with the threshold at which the weights sum to one."""
    exponent = 1 / (alpha - 1)
    # The top logit is 0, so the threshold lies in [-1, 0]; what is below -1 has weight zero.
    scaled = ((alpha - 1) * logits).clamp_min(-2)
    with torch.no_grad():
        low = torch.full_like(scaled[..., :1], -1)
        width = 1.0
        for _ in range(BISECTIONS):
            width /= 2
            middle = low + width
            low = torch.where(_power(scaled - middle, exponent).sum(-1, keepdim=True) >= 1, middle, low)
        slope = (exponent * _power(scaled - low, exponent - 1)).sum(-1, keepdim=True)
    # One Newton step, done where gradients see it, gives the threshold its exact derivative in scores and alpha.
    surplus = _power(scaled - low, exponent).sum(-1, keepdim=True) - 1
    return _power(scaled - (low + surplus / slope), exponent)


def _power(base: Tensor, exponent: Tensor) -> Tensor:
    """$[base]_+^{exponent}$ whose derivative is zero, never NaN, where the base is not positive."""
    positive = base > 0
    return torch.where(positive, torch.where(positive, base, 1.0) ** exponent, 0.0)
