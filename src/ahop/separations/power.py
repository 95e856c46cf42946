"""Polynomial separation."""

from typing import final

from typing_extensions import override

from ahop._core.checks import check_count
from ahop._core.tensors import lowest, saturate
from ahop._core.typing import PerQuery, Scores, Weights
from ahop.separations.base import Separation


@final
class Power(Separation):
    r"""$\mathrm{sep}(s) = s^k$, potential $\sum_n s_n^{k+1} / (k+1)$. With $k = 1$, the original Hopfield network.

    The potential is convex for odd $k$ only. A pair that nothing is known about, whose score is the lowest finite
    number, has no weight.

    Paper:
        Table 1, Hop and D-Hop.
    """

    is_distribution = False

    def __init__(self, exponent: int = 1) -> None:
        super().__init__()
        self.exponent = check_count("exponent", exponent)
        self.is_convex = self.exponent % 2 == 1

    @override
    def configuration(self) -> dict[str, object]:
        return {"exponent": self.exponent}

    @override
    def forward(self, scores: Scores) -> Weights:
        return saturate(_known(scores) ** self.exponent)

    @override
    def potential(self, scores: Scores) -> PerQuery:
        addends = saturate(_known(scores) ** (self.exponent + 1)) / (self.exponent + 1)
        return saturate(addends.sum(-1))


def _known(scores: Scores) -> Scores:
    return scores.masked_fill(scores == lowest(scores.dtype), 0)
