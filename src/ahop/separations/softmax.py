"""The separation of modern Hopfield networks and of attention."""

from typing import final

import torch
from torch import Tensor
from typing_extensions import override

from ahop._core.checks import check_positive, check_rate
from ahop._core.tensors import lowest, saturate
from ahop._core.typing import PerQuery, Scores, Weights
from ahop.separations.base import Separation


@final
class Softmax(Separation):
    r"""$\mathrm{sep}(s) = (1 - \varepsilon)\,\mathrm{softmax}(\beta s) + \varepsilon / n$.

    Its potential is $(1 - \varepsilon)\,\beta^{-1}\mathrm{lse}(\beta s) + \varepsilon\,\bar s$.

    Args:
        beta: the inverse temperature.
        floor: $\varepsilon$, the share of queries that the scores say nothing about: for these every pattern is as
            likely as any other, so no posterior is ever zero. Patterns that share nothing with a query get none of it.

    Paper:
        Table 1, M-Hop and A-Hop, with no floor.

    Example:
        >>> Softmax(beta=4.0)
        Softmax(beta=4.0)
    """

    def __init__(self, beta: float = 1.0, floor: float = 0.0) -> None:
        super().__init__()
        self.beta, self.floor = check_positive("beta", beta), check_rate("floor", floor)

    @override
    def configuration(self) -> dict[str, object]:
        return {"beta": self.beta, "floor": self.floor} if self.floor else {"beta": self.beta}

    @override
    def forward(self, scores: Scores) -> Weights:
        shares = torch.softmax(sharpened(below_top(scores)[0], self.beta), dim=-1)
        if not self.floor:
            return shares
        known = _known(scores)
        return self.floored(shares, known.sum(-1, keepdim=True)).where(known, 0)

    def floored(self, shares: Tensor, count: Tensor | int) -> Tensor:
        """The weights of some patterns, from their share of a plain softmax over all `count` of them."""
        if not self.floor:
            return shares
        among = count.to(shares).clamp_min(1) if isinstance(count, Tensor) else max(1, count)
        return (1 - self.floor) * shares + self.floor / among

    def floored_best(self, shares: Tensor, scores: Scores, counts: Tensor, rows: int) -> Tensor:
        """The weights (b, k) of the best of very many.

        Args:
            shares: of a plain softmax over all of them.
            scores: of the best.
            counts: (b,) how many of all share anything with the query.
            rows: how many there are.
        """
        nothing = (counts == 0).unsqueeze(-1)
        weights = self.floored(shares, counts.unsqueeze(-1).masked_fill(nothing, rows))
        return weights.where(has_evidence(scores) | nothing, 0) if self.floor else weights

    @override
    def curvature(self, weights: Weights) -> Weights:
        shares = weights - self.floor / weights.shape[-1] if self.floor else weights
        return sharpened(shares, self.beta)

    @override
    def potential(self, scores: Scores) -> PerQuery:
        plain = soft_maximum(scores, self.beta)
        if not self.floor:
            return plain
        known = _known(scores)
        shares = self.floor / known.sum(-1, keepdim=True).to(scores)
        return (1 - self.floor) * plain + (shares * scores.where(known, 0)).sum(-1)


def _known(scores: Scores) -> Tensor:
    """Mark the patterns with evidence for or against them; if none has, all that a prior of zero does not rule out."""
    known, possible = has_evidence(scores), ~torch.isneginf(scores)
    return torch.where(known.any(-1, keepdim=True), known, possible | ~possible.any(-1, keepdim=True))


def has_evidence(scores: Scores) -> Tensor:
    """Mark the patterns that share anything with the query."""
    return scores > 0.5 * lowest(scores.dtype)


def soft_maximum(scores: Scores, beta: float) -> PerQuery:
    r"""$\beta^{-1} \mathrm{lse}(\beta s)$."""
    below, top = below_top(scores)
    maximum: PerQuery = top.squeeze(-1) + torch.logsumexp(sharpened(below, beta), dim=-1) / beta
    return maximum


def sharpened(scores: Scores, beta: float) -> Scores:
    """Scores times beta; a beta beyond the range of their dtype is the largest number in it: zero stays zero."""
    return scores * min(beta, torch.finfo(scores.dtype).max)


def below_top(scores: Scores) -> tuple[Scores, Tensor]:
    """The scores as differences to the largest of each query, and that largest one: sharpening cannot overflow then."""
    top = scores.amax(-1, keepdim=True)
    return saturate(scores - top), top
