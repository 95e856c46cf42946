"""The separation of memories with compact basins."""

from typing import final

from torch import Tensor
from typing_extensions import override

from ahop._core.checks import check_positive
from ahop._core.tensors import saturate
from ahop._core.typing import PerQuery, Scores, Weights
from ahop.separations.base import Separation, with_gradient
from ahop.separations.softmax import sharpened


@final
class LogSumReLU(Separation):
    r"""The gradient of $\beta^{-1} \log(\varepsilon + \sum_n [1 + \beta s_n]_+)$.

    With $s = -\lVert x - \xi \rVert^2$ a pattern acts within the radius $\beta^{-1/2}$ and not at all beyond it: all
    that are within reach weigh the same, and where none is, all weights are zero. The potential is not convex.
    The energy of Hoover et al. (2025, arXiv:2506.10801) has $\tfrac12 \lVert x - \xi \rVert^2$, and so the radius
    $(2 / \beta)^{1/2}$: their $\beta$ is twice the one here.

    Args:
        epsilon: keeps the potential finite where nothing is within reach.
    """

    is_distribution = False
    is_convex = False

    def __init__(self, beta: float = 1.0, epsilon: float = 1e-6) -> None:
        super().__init__()
        self.beta, self.epsilon = check_positive("beta", beta), check_positive("epsilon", epsilon)

    @override
    def configuration(self) -> dict[str, object]:
        return {"beta": self.beta, "epsilon": self.epsilon}

    @override
    def forward(self, scores: Scores) -> Weights:
        reached = self._reached(scores)
        largest, total = self._total(reached)
        return (reached > 0).to(scores) / largest / total

    @override
    def potential(self, scores: Scores) -> PerQuery:
        largest, total = self._total(self._reached(scores.detach()))
        value = ((largest.log() + total.log()) / self.beta).squeeze(-1)
        return with_gradient(value, scores, self.forward(scores))

    def _reached(self, scores: Scores) -> Tensor:
        return saturate(1 + sharpened(scores, self.beta)).clamp_min(0)

    def _total(self, reached: Tensor) -> tuple[Tensor, Tensor]:
        """The sum in two factors, the first of which cannot overflow and has no gradient."""
        largest = reached.detach().amax(-1, keepdim=True).clamp_min(self.epsilon)
        return largest, (reached / largest).sum(-1, keepdim=True) + self.epsilon / largest
