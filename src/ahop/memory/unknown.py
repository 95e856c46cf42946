"""Detect queries that come from no stored pattern."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import final

import torch
from torch import Tensor
from typing_extensions import override

from ahop._core.checks import check_rate
from ahop._core.component import Component
from ahop._core.tensors import exponentials_, lowest
from ahop._core.typing import PerQuery, Scores
from ahop.memory.decisions import log_odds_of
from ahop.memory.planning import FEATURES

# Beyond this a feature says "certainly", whatever its size.
LARGEST = 1e4


@dataclass(frozen=True)
class Evidence:
    """Statistics of the scores of all rows for each query, (b,) each and in float64. Parts can be merged.

    Attributes:
        best: the largest score.
        log_rest: logarithm of the sum of `exp(s)` over all rows but the best.
        mean: of the scores of rows that share anything with the query.
        squares: sum of the squared deviations from it.
        known: how many rows these are.
        rows: how many rows there are that may be the origin: their score is not minus infinity.
    """

    best: Tensor
    log_rest: Tensor
    mean: Tensor
    squares: Tensor
    known: Tensor
    rows: Tensor

    @classmethod
    def none(cls, count: int, device: torch.device | str = "cpu") -> "Evidence":
        """Before any row was seen."""
        zeros = [torch.zeros(count, dtype=torch.float64, device=device) for _ in range(4)]
        nothing = torch.full_like(zeros[0], -torch.inf)
        return cls(nothing, nothing.clone(), *zeros)

    @classmethod
    def of(cls, scores: Scores) -> "Evidence":
        """Compute it from scores (b, n)."""
        if not scores.shape[-1]:
            return cls.none(len(scores), scores.device)
        is_known = scores > 0.5 * lowest(scores.dtype)
        best, place = scores.max(-1, keepdim=True)
        others = scores.scatter(-1, place, -torch.inf)
        second = others.amax(-1, keepdim=True)
        mass = exponentials_(others.sub_(second.where(~torch.isneginf(second), 0))).sum(-1).double()
        rest = second.squeeze(-1).double() + mass.log()
        known = is_known.sum(-1)
        mean = torch.where(is_known, scores, 0).sum(-1, dtype=torch.float64) / known.clamp_min(1)
        near = mean.to(scores.dtype).unsqueeze(-1)
        squares = torch.where(is_known, scores - near, 0).square_().sum(-1, dtype=torch.float64)
        squares = (squares - known * (mean - near.squeeze(-1)).square()).clamp_min(0)
        rows = (scores > -torch.inf).sum(-1).to(rest)
        return cls(best.squeeze(-1).double(), rest, mean, squares, known.double(), rows)

    @classmethod
    def of_some(cls, best_few: Scores, log_rest: PerQuery, drawn: Tensor, count: int) -> "Evidence":
        """From the best scores (b, k), the mass of all others, and scores (b, m) of some that stand for all.

        Args:
            drawn: minus infinity for those that are not among the rows.
            count: how many rows there are.
        """
        few, some = best_few.double(), cls.of(drawn)
        best, place = few.max(-1, keepdim=True)
        rest = few.scatter(-1, place, -torch.inf).logsumexp(-1).logaddexp(log_rest.double())
        share = count / some.rows.clamp_min(1)
        return cls(
            best.squeeze(-1), rest, some.mean, some.squares * share, some.known * share, torch.full_like(rest, count)
        )

    @classmethod
    def stacked(cls, parts: "Sequence[Evidence]") -> "Evidence":
        """Stack blocks of queries, one below the other."""
        return cls(*(torch.cat([getattr(part, each.name) for part in parts]) for each in fields(cls)))

    def __getitem__(self, queries: Tensor) -> "Evidence":
        """Select some of the queries."""
        return Evidence(*(getattr(self, each.name)[queries] for each in fields(self)))

    def merged(self, other: "Evidence") -> "Evidence":
        """Merge with that of other rows. Means and squares are joined as Chan has it, without large differences."""
        lower = torch.minimum(self.best, other.best)
        rest = self.log_rest.logaddexp(other.log_rest).logaddexp(lower)
        known, step = self.known + other.known, other.mean - self.mean
        share = other.known / known.clamp_min(1)
        squares = self.squares + other.squares + step.square() * self.known * share
        mean = self.mean + step * share
        return Evidence(torch.maximum(self.best, other.best), rest, mean, squares, known, self.rows + other.rows)

    def without_best(self, second: PerQuery, third: PerQuery) -> "Evidence":
        """Leave the best row out, given the next two scores."""
        second, third = second.double(), third.double()
        rest = self.log_rest + torch.log1p(-(second - self.log_rest).exp().clamp(0, 1))
        known = (self.known - 1).clamp_min(0)
        mean = self.mean - (self.best - self.mean) / known.clamp_min(1)
        squares = (self.squares - (self.best - self.mean) * (self.best - mean)).clamp_min(0)
        return Evidence(second, torch.maximum(rest, third), mean, squares, known, self.rows - 1)

    def features(self) -> Tensor:
        """The evidence for all rows together, the lead of the best over the rest, mean and spread, (b, 4).

        Both sums are of a row on average: what was learned among so many rows holds among more of them.
        """
        rest = torch.where(self.rows > 1, self.log_rest - (self.rows - 1).clamp_min(1).log(), self.best)
        together = torch.logaddexp(self.best, self.log_rest) - self.rows.clamp_min(1).log()
        spread = (self.squares / self.known.clamp_min(1)).sqrt()
        features = torch.stack([together, self.best - rest, self.mean, spread], dim=-1)
        return features.nan_to_num(LARGEST).clamp(-LARGEST, LARGEST)


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
        return self.of_evidence(Evidence.of(scores)).to(scores.dtype)

    def of_evidence(self, evidence: Evidence) -> PerQuery:
        """Probability of an unknown origin, of scores in parts. Without any row every query is unknown."""
        return torch.sigmoid(self.log_odds(evidence)).masked_fill(evidence.rows == 0, 1.0)

    def log_odds(self, evidence: Evidence) -> PerQuery:
        """Log odds of a query of no stored pattern, against one of any of them."""
        features = (evidence.features() - self.center.double()) / self.scale.double()
        return self.log_prior_odds - features @ self.slopes.double() - self.offset.double()

    @property
    def log_prior_odds(self) -> float:
        """Log odds of an unknown origin before a query is looked at."""
        return log_odds_of(self.rate)

    @property
    def worth_of_best(self) -> float:
        """Nats against unknown that a nat of the best score is worth, all other scores left as they are.

        It counts in the evidence for all patterns together, and in the lead over the rest.
        """
        return float((self.slopes.double() / self.scale.double())[:2].sum())
