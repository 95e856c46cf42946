"""Entmax: the family between softmax and sparsemax."""

from math import log
from typing import final

import torch
from torch import Tensor, nn
from typing_extensions import override

from ahop._core.checks import check_positive
from ahop._core.typing import PerQuery, Scores, Weights
from ahop.errors import InvalidValueError
from ahop.separations.base import Separation, with_gradient
from ahop.separations.softmax import below_top

BISECTIONS = 40
# As close as alpha comes to 1, and to 2 where it is learned: nearer than this, rounding would put it there.
MARGIN = 1e-6


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
        self._alpha: Tensor
        if learnable:
            self._alpha = nn.Parameter(torch.logit(torch.tensor(float(alpha - 1))))
        else:
            self.register_buffer("_alpha", torch.tensor(float(alpha)))

    @property
    def alpha(self) -> Tensor:
        if self.learnable:
            return 1 + torch.sigmoid(self._alpha).clamp(MARGIN, 1 - MARGIN)
        return self._alpha.clamp_min(1 + MARGIN)

    @override
    def configuration(self) -> dict[str, object]:
        return {"alpha": round(float(self.alpha.detach()), 6), "beta": self.beta, "learnable": self.learnable}

    @override
    def forward(self, scores: Scores) -> Weights:
        return _weights(self.beta * below_top(scores)[0], self.alpha.to(scores.dtype))

    @override
    def curvature(self, weights: Weights) -> Weights:
        return self.beta * positive_power(weights, 2 - self.alpha.detach().to(weights.dtype))

    @override
    def potential(self, scores: Scores) -> PerQuery:
        weights = self.forward(scores)
        alpha = self.alpha.to(scores.dtype)
        below, top = below_top(scores.detach())
        fixed = weights.detach()
        # The tangent in alpha comes from the entropy alone, by the same theorem that gives it for the scores.
        surprise = torch.expm1((alpha - 1) * torch.where(fixed > 0, fixed, 1.0).log())
        entropy = (fixed * surprise).sum(-1) / (alpha * (alpha - 1))
        value = top.squeeze(-1) + (fixed * below).sum(-1) - entropy / self.beta
        return with_gradient(value, scores, weights)


def _weights(logits: Tensor, alpha: Tensor) -> Tensor:
    r"""$\exp_\alpha(z - \tau)$ with the threshold at which the weights sum to one."""
    with torch.no_grad():
        # The top logit is 0 and its weight at least 1/n, so the threshold lies in [0, log n].
        low = torch.zeros_like(logits[..., :1])
        width = log(logits.shape[-1])
        for _ in range(BISECTIONS):
            width /= 2
            middle = low + width
            low = torch.where(_exponential(logits - middle, alpha).sum(-1, keepdim=True) >= 1, middle, low)
        slope = positive_power(_exponential(logits - low, alpha), 2 - alpha).sum(-1, keepdim=True)
    # One Newton step, done where gradients see it, gives the threshold its exact derivative in scores and alpha.
    surplus = _exponential(logits - low, alpha).sum(-1, keepdim=True) - 1
    return _exponential(logits - (low + surplus / slope), alpha)


def _exponential(values: Tensor, alpha: Tensor) -> Tensor:
    r"""$\exp_\alpha(v) = [1 + (\alpha - 1) v]_+^{1/(\alpha - 1)}$, to full precision also where it nears $\exp(v)$."""
    scaled = (alpha - 1) * values
    positive = scaled > -1
    return torch.where(positive, torch.exp(torch.log1p(torch.where(positive, scaled, 0.0)) / (alpha - 1)), 0.0)


def positive_power(base: Tensor, exponent: Tensor | float) -> Tensor:
    """$[base]_+^{exponent}$, which is zero for zero."""
    positive = base > 0
    return torch.where(positive, torch.where(positive, base, 1.0) ** exponent, 0.0)
