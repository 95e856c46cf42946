"""Softmax over the best few."""

from typing import final

import torch
from torch import Tensor
from typing_extensions import override

from ahop._core.checks import check_count, check_positive
from ahop._core.typing import PerQuery, Scores, Weights
from ahop.separations.base import Separation, with_gradient
from ahop.separations.softmax import below_top, sharpened, soft_maximum


@final
class TopK(Separation):
    r"""Softmax over the $k$ largest scores; all other weights are zero.

    Its potential $\max_{|S| = k} \beta^{-1} \mathrm{lse}_{n \in S}(\beta s_n)$ is a maximum of convex functions, so
    convex. Scores that tie for the last places share them (Gupta et al., 2021, arXiv:2106.06899).
    """

    def __init__(self, k: int, beta: float = 1.0) -> None:
        super().__init__()
        self.k, self.beta = check_count("k", k), check_positive("beta", beta)

    @override
    def configuration(self) -> dict[str, object]:
        return {"k": self.k, "beta": self.beta}

    @override
    def forward(self, scores: Scores) -> Weights:
        masses = torch.exp(sharpened(below_top(scores)[0], self.beta)) * self._places(scores)
        return masses / masses.sum(-1, keepdim=True)

    def _places(self, scores: Scores) -> Tensor:
        """Mark the best scores, (b, n); those that tie for the last places have a share of them."""
        k = min(self.k, scores.shape[-1])
        last = scores.detach().topk(k, dim=-1).values[..., -1:]
        above, tied = scores > last, scores == last
        left = k - above.sum(-1, keepdim=True)
        return above + tied * (left / tied.sum(-1, keepdim=True)).to(scores)

    @override
    def potential(self, scores: Scores) -> PerQuery:
        weights = self.forward(scores)
        best = scores.detach().topk(min(self.k, scores.shape[-1]), dim=-1).values
        return with_gradient(soft_maximum(best, self.beta), scores, weights)
