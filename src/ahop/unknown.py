"""Does a query come from any stored pattern at all?"""

from math import log
from typing import final

import torch
from torch import Tensor
from typing_extensions import override

from ahop._checks import check_rate
from ahop._component import Component
from ahop._tensors import lowest
from ahop._typing import PerQuery, Scores

FEATURES = 4
# Beyond this a feature says "certainly", whatever its size.
LARGEST = 1e4


@final
class UnknownDetector(Component):
    r"""$P(\text{no stored pattern} \mid x)$, logistic in four numbers that the scores of a query show.

    The evidence for all patterns together, the lead of the best over the rest, and mean and spread of the scores: a
    query of a stored pattern has one score that stands out from what the others say it should be.

    Args:
        rate: how many queries come from no stored pattern, before one is looked at.
    """

    center: Tensor
    scale: Tensor
    slopes: Tensor
    offset: Tensor

    def __init__(self, rate: float = 0.5) -> None:
        super().__init__()
        self.rate = check_rate("rate", rate)
        self.register_buffer("center", torch.zeros(FEATURES))
        self.register_buffer("scale", torch.ones(FEATURES))
        self.register_buffer("slopes", torch.zeros(FEATURES))
        self.register_buffer("offset", torch.zeros(()))

    @override
    def configuration(self) -> dict[str, object]:
        return {"rate": self.rate}

    def forward(self, scores: Scores) -> PerQuery:
        return self.of_features(score_features(scores)).to(scores.dtype)

    def of_features(self, features: Tensor) -> PerQuery:
        """From what the scores show, (b, 4), where not all of them were looked at."""
        features = (features - self.center.double()) / self.scale.double()
        prior = torch.logit(torch.tensor(self.rate, dtype=torch.float64), eps=1e-12)
        odds = prior - features @ self.slopes.double() - self.offset.double()
        return torch.sigmoid(odds)


def score_features(scores: Scores) -> Tensor:
    """Evidence, lead, mean and spread of each query's scores, (b, 4)."""
    mean, spread = mean_and_spread(scores)
    scores = scores.double()
    best, place = scores.max(-1, keepdim=True)
    rest = scores.scatter(-1, place, -torch.inf).logsumexp(-1) if scores.shape[-1] > 1 else best.squeeze(-1)
    return as_features(scores.logsumexp(-1) - log(scores.shape[-1]), best.squeeze(-1) - rest, mean, spread)


def features_of(best_few: Scores, log_rest: PerQuery, mean: PerQuery, spread: PerQuery, count: int) -> Tensor:
    """The same from the best scores, the logarithm of the mass of the others, and mean and spread of a sample."""
    best, place = best_few.double().max(-1, keepdim=True)
    rest = best_few.double().scatter(-1, place, -torch.inf).logsumexp(-1).logaddexp(log_rest.double())
    best = best.squeeze(-1)
    return as_features(torch.logaddexp(best, rest) - log(max(1, count)), best - rest, mean, spread)


def as_features(evidence: PerQuery, lead: PerQuery, mean: PerQuery, spread: PerQuery) -> Tensor:
    """The four numbers side by side, (b, 4), and none beyond what says "certainly"."""
    features = torch.stack([each.double() for each in (evidence, lead, mean, spread)], dim=-1)
    return features.nan_to_num(LARGEST).clamp(-LARGEST, LARGEST)


def mean_and_spread(scores: Scores) -> tuple[PerQuery, PerQuery]:
    """Of the scores that say anything: the others belong to patterns that share nothing with the query."""
    known = scores > 0.5 * lowest(scores.dtype)
    scores, count = scores.double(), known.sum(-1).clamp_min(1)
    mean = torch.where(known, scores, 0).sum(-1) / count
    spread = (torch.where(known, scores - mean.unsqueeze(-1), 0).square().sum(-1) / count).sqrt()
    return mean, spread
