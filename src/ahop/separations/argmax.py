"""All weight to the best score."""

from typing import final

from typing_extensions import override

from ahop._core.typing import PerQuery, Scores, Weights
from ahop.separations.base import Separation


@final
class Argmax(Separation):
    r"""One-hot at the largest score, potential $\max_n s_n$. Ties share the weight equally.

    Paper:
        Table 1, U-Hop; the separation under which the optimality lemmas hold.
    """

    @override
    def forward(self, scores: Scores) -> Weights:
        best = (scores == scores.amax(-1, keepdim=True)).to(scores.dtype)
        return best / best.sum(-1, keepdim=True)

    @override
    def potential(self, scores: Scores) -> PerQuery:
        return scores.amax(-1)
