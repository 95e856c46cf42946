"""Learned numbers that make log-odds of the scores of a search."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ahop._core.labels import Label
from ahop.memory.unknown import Evidence, UnknownDetector
from ahop.operate.attaching.lists import Lists

# An id that was never answered counts as one that was first once in two.
HUBNESS_DAMPING = 0.5
# Statistics of a list that are watched.
LEVELS = ("best score", "lead over the second", "last score", "mean score", "spread of scores", "hubness of the first")


def shares(k: int) -> Tensor:
    """Weight of each place of a list in the hubness of its id: one over its rank."""
    return 1 / torch.arange(1, k + 1, dtype=torch.float64)


@dataclass(frozen=True)
class Levels:
    r"""$u_j = w (s_j - c) / \sigma - v \log(1 + t_j / d)$: the log-odds of each answer of a list, up to a number.

    Attributes:
        center: $c$ of the scores of all lists.
        scale: $\sigma$, the mean spread of a list.
        closeness: $w$.
        hubness: $v$; negative where ids that are answered often are right more often.
        totals: $t$, how often each id was answered, each time one over its rank.
    """

    center: float
    scale: float
    closeness: float = 1.0
    hubness: float = 0.0
    totals: Mapping[Label, float] = field(default_factory=dict)

    def closenesses(self, lists: Lists) -> Tensor:
        """Scores in spreads of a list, (b, k)."""
        return (lists.scores - self.center) / self.scale

    def hubs(self, lists: Lists, own: int = 0) -> Tensor:
        """Logarithm of the number of times that each id was answered, (b, k).

        Args:
            own: so many first answers of these very lists were counted, and are taken back.
        """
        flat = [self.totals.get(each, 0.0) for each in lists.ids.reshape(-1).tolist()]
        totals = torch.tensor(flat, dtype=torch.float64).view(lists.scores.shape)
        totals[:, :own] -= shares(lists.scores.shape[1])[:own]
        return torch.log1p(totals.clamp_min(0) / HUBNESS_DAMPING)

    def log_odds(self, lists: Lists, hubs: Tensor) -> Tensor:
        return (self.closeness * self.closenesses(lists) - self.hubness * hubs).where(
            torch.isfinite(lists.scores), -torch.inf
        )


@dataclass(frozen=True)
class Calibration:
    """Everything that was learned about a search; it knows nothing of the search itself.

    Attributes:
        levels: of scores.
        floor: the share of the queries that the scores of a list say nothing about.
        detector: of queries that no answer of the list is right for.
        relevance: (3,) log-odds of an answer: for a nat of its log-probability, for a nat of a right answer being there
            at all, and an offset; None where no query had several right answers.
        reference: (m, c + 1) levels of queries of then, which later ones are compared with, and how sure their first
            answers were.
    """

    levels: Levels
    floor: float
    detector: UnknownDetector
    relevance: Tensor | None
    reference: Tensor

    def posterior(self, log_odds: Tensor) -> Tensor:
        """Probability of each answer of a list, given that one is right, (b, k); zero where there are no more."""
        there = ~torch.isneginf(log_odds)
        count = there.sum(-1, keepdim=True).clamp_min(1)
        sharp = torch.softmax(log_odds.where(there.any(-1, keepdim=True), 0), -1)
        return ((1 - self.floor) * sharp + self.floor / count).masked_fill(~there, 0)

    def unknown(self, log_odds: Tensor) -> Tensor:
        """That no answer of the list is right, (b,)."""
        return self.detector.of_evidence(Evidence.of(log_odds))

    def relevances(self, posterior: Tensor, unknown: Tensor) -> Tensor:
        """That each answer is right, whatever the others are, (b, k)."""
        is_there = (1 - unknown).unsqueeze(-1)
        if self.relevance is None:
            return posterior * is_there
        return torch.sigmoid(designed(posterior, unknown) @ self.relevance).masked_fill(posterior == 0, 0)


def designed(posterior: Tensor, unknown: Tensor) -> Tensor:
    """The three numbers that relevance is told by, (b, k, 3)."""
    least = 1e-9
    of_list = torch.logit(1 - unknown, least).unsqueeze(-1).expand_as(posterior)
    return torch.stack([posterior.clamp_min(least).log(), of_list, torch.ones_like(posterior)], -1)


def watched(lists: Lists, hubs: Tensor) -> Tensor:
    """Statistics of lists that are watched, (b, c), in the unit of the scores; NaN for an empty list."""
    scores = lists.scores.masked_fill(torch.isneginf(lists.scores), torch.nan)
    best = lists.scores.topk(min(2, scores.shape[1]), dim=-1).values
    mean = scores.nanmean(-1)
    spread = (scores - mean.unsqueeze(-1)).square().nanmean(-1).sqrt()
    last = scores.nan_to_num(torch.inf).amin(-1)
    found = torch.stack([best[:, 0], best[:, 0] - best[:, -1], last, mean, spread, hubs[:, 0]], -1)
    return found.masked_fill(torch.isinf(found), torch.nan)


def hits_of(lists: Lists, wanted: Sequence[frozenset[Label]]) -> Tensor:
    """Mark the answers that are right, (b, k)."""
    found: NDArray[np.bool_] = np.array(
        [[each in right for each in row] for row, right in zip(lists.ids.tolist(), wanted, strict=True)], dtype=bool
    )
    return torch.from_numpy(found.reshape(lists.ids.shape))
