"""Fit calibrated posteriors to held-out scores."""

from dataclasses import dataclass
from math import log, log1p

import torch
from torch import Tensor

from ahop._core.typing import Origins, Scores
from ahop.fitting.settings import DEFAULT, PosteriorSettings

# Newton steps, and the shares of a step that are tried until the objective falls.
NEWTON_STEPS_OF_POSTERIOR, SHARES, POSTERIOR_TOLERANCE = 40, (1.0, 0.5, 0.25, 0.1, 0.03, 0.01, 0.001), 1e-5
# Rivals of each pair that are kept as they are, and those that are drawn to stand for all others.
CLOSEST_RIVALS, DRAWN_RIVALS_OF_PAIR = 64, 32
# Below the best by more than this many units, a score says "certainly not".
FARTHEST = 1e6


@dataclass(frozen=True)
class Rivals:
    """Scores of each pair's origin and of its rivals.

    Attributes:
        scores: (k, m, t) of k similarities; the origin's in the first column, below the best of each pair.
        log_counts: (m, t) how many patterns each column stands for, in logarithms.
        count: how many patterns there are.
    """

    scores: Tensor
    log_counts: Tensor
    count: int

    def scaled(self, factors: Tensor) -> "Rivals":
        return Rivals(self.scores * factors.view(-1, 1, 1), self.log_counts, self.count)

    def only(self, members: list[int]) -> "Rivals":
        return Rivals(self.scores[members], self.log_counts, self.count)


@dataclass(frozen=True)
class Posterior:
    r"""$p = (1 - e)\,\mathrm{softmax}(\sum_k w_k s_k) + e / n$, fitted.

    Attributes:
        weights: (k,) $w$, not negative.
        floor: $e$, the share of queries that the scores say nothing about.
        losses: (m,) $-\log p$ of each origin.
        objective: what was made small: the sum of the losses, and what the priors add.
    """

    weights: Tensor
    floor: float
    losses: Tensor
    objective: float


def closest_rivals(scores: list[Scores], origins: Origins, rank_by: Tensor | None = None) -> Rivals:
    """The closest rivals of each pair, and some others for the rest.

    Args:
        scores: (m, p) of each similarity.
        rank_by: (m, p) how close a rival is; if None, by the first similarity.
    """
    own, (pairs, count) = origins.unsqueeze(-1), scores[0].shape
    near = (scores[0] if rank_by is None else rank_by).scatter(-1, own, -torch.inf)
    if count <= 1 + CLOSEST_RIVALS + DRAWN_RIVALS_OF_PAIR:
        columns = torch.cat([own, near.sort(dim=-1, descending=True, stable=True).indices[:, : count - 1]], dim=-1)
        log_counts = torch.zeros_like(columns, dtype=torch.float64)
    else:
        columns = torch.cat([own, near.topk(CLOSEST_RIVALS, dim=-1).indices], dim=-1)
        drawn = torch.arange(DRAWN_RIVALS_OF_PAIR, device=own.device) * count // DRAWN_RIVALS_OF_PAIR
        taken = (drawn.view(1, -1, 1) == columns.unsqueeze(1)).any(-1)
        each = ((count - 1 - CLOSEST_RIVALS) / (~taken).sum(-1, keepdim=True).clamp_min(1)).double().log()
        of_drawn = each.expand(-1, DRAWN_RIVALS_OF_PAIR).masked_fill(taken, -torch.inf)
        log_counts = torch.cat([torch.zeros_like(columns, dtype=torch.float64), of_drawn], dim=-1)
        columns = torch.cat([columns, drawn.expand(pairs, -1)], dim=-1)
    values = [each.gather(-1, columns).double() - each.amax(-1, keepdim=True).double() for each in scores]
    return Rivals(torch.stack(values), log_counts, count)


def fit_posterior(
    rivals: Rivals,
    trust: Tensor,
    penalty: float,
    start: Tensor | None = None,
    floor: float = 0.05,
    settings: PosteriorSettings = DEFAULT.posterior,
) -> Posterior:
    """The weights and the floor under which the origins are most likely.

    Convex in the weights for a given share of pairs that the scores speak of, and that share is re-estimated at every
    step: expectation and maximization, with one Newton step of the maximization at a time.

    Args:
        trust: (m,) how much each pair counts.
        penalty: what a unit of weight costs, in pairs' log-losses; it keeps weights finite, and useless ones at zero.
    """
    problem = _Problem(rivals, trust.double(), penalty, settings)
    weights = torch.ones(len(rivals.scores), dtype=torch.float64) if start is None else start.double()
    before = problem.objective(weights, floor)
    for _ in range(NEWTON_STEPS_OF_POSTERIOR):
        floor = problem.best_floor(weights, floor)
        moved = problem.step(weights, floor)
        if moved is None:
            break
        weights, objective = moved
        if before - objective < POSTERIOR_TOLERANCE:
            break
        before = objective
    return Posterior(weights, floor, problem.losses(weights, floor), problem.objective(weights, floor))


class _Problem:
    def __init__(self, rivals: Rivals, trust: Tensor, penalty: float, settings: PosteriorSettings) -> None:
        self.scores, self.log_counts, self.count = rivals.scores, rivals.log_counts, rivals.count
        self.trust, self.penalty = trust, penalty
        self.missed, self.met, self.most_floor = settings.missed_pairs, settings.met_pairs, settings.most_floor_share
        self.lead = self.scores[:, :, :1] - self.scores  # of the origin over each rival

    def log_shares(self, weights: Tensor) -> Tensor:
        """Log-probability of each origin in a plain softmax, (m,)."""
        behind = torch.einsum("kmt,k->mt", self.lead, -weights) + self.log_counts
        return -torch.logsumexp(behind, -1)

    def losses(self, weights: Tensor, floor: float) -> Tensor:
        return -torch.log((1 - floor) * self.log_shares(weights).exp() + floor / self.count)

    def objective(self, weights: Tensor, floor: float) -> float:
        priors = self.penalty * float(weights.sum()) - self.missed * log(floor) - self.met * log1p(-floor)
        return float((self.trust * self.losses(weights, floor)).sum()) + priors

    def spoken_of(self, weights: Tensor, floor: float) -> Tensor:
        """Probability that the scores, not the floor, explain each pair, (m,)."""
        share = (1 - floor) * self.log_shares(weights).exp()
        return share / (share + floor / self.count)

    def best_floor(self, weights: Tensor, floor: float) -> float:
        missed = float((self.trust * (1 - self.spoken_of(weights, floor))).sum())
        return min(self.most_floor, (missed + self.missed) / (float(self.trust.sum()) + self.missed + self.met))

    def step(self, weights: Tensor, floor: float) -> tuple[Tensor, float] | None:
        """One Newton step inside the weights that are not negative; None if none makes the objective fall."""
        counted = self.trust * self.spoken_of(weights, floor)
        shares = torch.softmax(torch.einsum("kmt,k->mt", self.lead, -weights) + self.log_counts, -1)
        mean = torch.einsum("kmt,mt->km", self.lead, shares)
        slope = self.penalty - (mean * counted).sum(-1)
        spread = self.lead * (shares * counted.unsqueeze(-1)).sqrt()
        bend = torch.einsum("kmt,jmt->kj", spread, spread) - torch.einsum("km,jm,m->kj", mean, mean, counted)
        bend = bend + torch.diag(1e-6 * bend.diagonal() + 1e-12)
        free = ~((weights <= 0) & (slope > 0))
        newton = torch.zeros_like(weights)
        if bool(free.any()):
            newton[free] = -torch.linalg.solve(bend[free][:, free], slope[free])
        now = self.objective(weights, floor)
        # Where the border bends a Newton step uphill, each weight by itself still finds its way down.
        for move in (newton, -slope / bend.diagonal()):
            for share in SHARES:
                moved = (weights + share * move).clamp_min(0)
                objective = self.objective(moved, floor)
                if objective < now:
                    return moved, objective
        return None


def behind(losses: Tensor, best: Tensor, trust: Tensor) -> tuple[float, float]:
    """By how much losses (m,) are larger than the best ones in the mean, and the standard error of that."""
    shares = trust / trust.sum().clamp_min(1e-12)
    more = losses - best
    mean = (more * shares).sum()
    error = ((more - mean).square() * shares).sum().sqrt() / max(1, len(more) - 1) ** 0.5
    return float(mean), float(error)


def calibrated(
    rivals: Rivals, trust: Tensor, settings: PosteriorSettings = DEFAULT.posterior
) -> tuple[float, Posterior]:
    """The inverse temperature of one similarity's scores, and its posterior, in which its weight is one."""
    lead = -rivals.scores[0].masked_fill(torch.isneginf(rivals.log_counts), -torch.inf)
    second = lead.topk(min(2, lead.shape[-1]), dim=-1, largest=False).values[:, -1]
    known = second[second < 1e30]
    unit = float(known.mean()) if len(known) else 0.0
    if unit <= 0:
        finite = lead[lead < 1e30]
        mean = float(finite.mean()) if len(finite) else 0.0
        unit = mean if mean > 1e-30 else 1.0  # nothing tells any two apart
    in_units = Rivals((rivals.scores / unit).clamp_min(-FARTHEST), rivals.log_counts, rivals.count)
    fitted = fit_posterior(in_units, trust, settings.doubt_pairs, settings=settings)
    beta = max(float(fitted.weights[0]), 1e-6) / unit
    return beta, Posterior(torch.ones(1, dtype=torch.float64), fitted.floor, fitted.losses, fitted.objective)
