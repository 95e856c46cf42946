"""Softmax with a ghost: weight may go to nobody."""

from typing import final

import torch
from torch import Tensor
from typing_extensions import override

from ahop._core.checks import check_finite, check_positive
from ahop._core.typing import PerQuery, Scores, Weights
from ahop.separations.base import Separation
from ahop.separations.softmax import below_top, sharpened, soft_maximum


@final
class GhostSoftmax(Separation):
    r"""$\mathrm{sep}(s)_n = e^{\beta s_n} / (e^{\beta g} + \sum_m e^{\beta s_m})$: a ghost of score $g$ has a share.

    Weights sum to less than one, and to nearly nothing where no pattern scores above the ghost: attention that can stay
    silent, without outliers that would have to take the weight. Its potential is the logarithm of that denominator.
    With a ghost of score 0 it is the softmax_1 of Hu et al. (2024, arXiv:2404.03828).
    """

    is_distribution = False

    def __init__(self, beta: float = 1.0, ghost: float = 0.0) -> None:
        super().__init__()
        self.beta, self.ghost = check_positive("beta", beta), check_finite("ghost", ghost)

    @override
    def configuration(self) -> dict[str, object]:
        return {"beta": self.beta, "ghost": self.ghost}

    @override
    def forward(self, scores: Scores) -> Weights:
        below, _ = below_top(self._with_ghost(scores))
        return torch.softmax(sharpened(below, self.beta), dim=-1)[..., :-1]

    @override
    def potential(self, scores: Scores) -> PerQuery:
        return soft_maximum(self._with_ghost(scores), self.beta)

    def _with_ghost(self, scores: Scores) -> Tensor:
        return torch.cat([scores, scores.new_full((*scores.shape[:-1], 1), self.ghost)], dim=-1)
