"""Fit a sparse, non-negative, log-linear pool of similarities to held-out scores."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from math import log

import torch
from torch import Tensor

from ahop.fitting.choosing.posterior import Posterior, Rivals, fit_posterior
from ahop.fitting.settings import DEFAULT, Settings

# Candidates that the user brought are left out only if their log-loss is more than this share of that of a guess.
OF_A_GUESS = 0.5
# Weights below this are none.
LEAST_POOL_WEIGHT = 1e-6


@dataclass(frozen=True)
class Pool:
    """Members, best first, and the posterior that they make together.

    Attributes:
        members: which of the candidates.
        posterior: with a weight for each member.
        worth: (k,) by how much the mean log-loss would rise without each.
    """

    members: list[int]
    posterior: Posterior
    worth: list[float]


def fit_pool(
    rivals: Rivals,
    trust: Tensor,
    first: int,
    losses: Sequence[float],
    brought: Collection[int] = (),
    settings: Settings = DEFAULT,
) -> Pool:
    """Weights of all candidates at once, most of them zero; then, one by one, those go that bring too little.

    Args:
        rivals: scores of all candidates, each calibrated by itself, so that a weight of one is its own best.
        first: the best candidate by itself, which stays alone if a pool brings too little.
        losses: mean log-loss of each candidate by itself.
        brought: candidates that the user brought, whose time he is willing to pay for: they stay whatever they bring,
            unless their weight is zero.
    """

    def fitted(places: list[int], start: Tensor | None = None) -> Posterior:
        return fit_pooled(rivals.only(places), trust, settings, start)

    def without(member: int) -> Posterior:
        return fitted([each for each in members if each != member])

    total, asked = float(trust.sum()), settings.pool
    least = asked.least_gain_nats * total**0.5
    alone = fitted([first])
    most, guess = min(losses) + asked.within_nats, log(rivals.count)
    limits = [max(most, OF_A_GUESS * guess) if each in brought else most for each in range(len(losses))]
    members = [each for each, loss in enumerate(losses) if loss <= limits[each]]
    start = torch.full((len(members),), 1 / len(members), dtype=torch.float64)
    found = fitted(members, start)
    kept = [place for place, weight in enumerate(found.weights.tolist()) if weight > LEAST_POOL_WEIGHT]
    members, found = [members[place] for place in kept], _only(found, kept)
    while len(members) > 1 and (ours := [member for member in members if member not in brought]):
        others = {member: without(member) for member in ours}
        weakest = min(ours, key=lambda member: others[member].objective)
        if len(members) <= asked.most_members and others[weakest].objective - found.objective >= least:
            break
        members, found = [member for member in members if member != weakest], others[weakest]
    if len(members) < 2 or alone.objective - found.objective < max(least, asked.least_pool_gain_nats):
        return Pool([first], alone, [0.0])
    worth = [float((trust * (without(member).losses - found.losses)).sum()) / total for member in members]
    order = sorted(range(len(members)), key=lambda place: -worth[place])
    return Pool([members[place] for place in order], _only(found, order), [worth[place] for place in order])


def fit_pooled(
    rivals: Rivals, trust: Tensor, settings: Settings, start: Tensor | None = None, floor: float = 0.05
) -> Posterior:
    """The weights of these similarities, each calibrated by itself, at the price of a pool."""
    return fit_posterior(rivals, trust, settings.pool.weight_nats, start, floor, settings.posterior)


def cross_fitted(rivals: Rivals, trust: Tensor, folds: Tensor, start: Posterior, settings: Settings) -> Rivals:
    """The pool of these members, the scores of each fold weighed by what the other folds say."""
    pooled = torch.empty_like(rivals.scores[0])
    for fold in range(int(folds.max()) + 1):
        seen, unseen = folds != fold, folds == fold
        others = Rivals(rivals.scores[:, seen], rivals.log_counts[seen], rivals.count)
        weights = fit_pooled(others, trust[seen], settings, start.weights, start.floor).weights
        pooled[unseen] = torch.einsum("kmt,k->mt", rivals.scores[:, unseen], weights)
    return Rivals((pooled - pooled.amax(-1, keepdim=True)).unsqueeze(0), rivals.log_counts, rivals.count)


def promises(
    rivals: Rivals, trust: Tensor, members: list[int], current: Posterior, weight_nats: float
) -> dict[int, float]:
    """By how much each candidate would make the objective fall, by its slope and bend at weight zero."""
    others = [each for each in range(len(rivals.scores)) if each not in members]
    lead = rivals.scores[:, :, :1] - rivals.scores
    behind = torch.einsum("kmt,k->mt", lead[members], -current.weights) + rivals.log_counts
    shares = torch.softmax(behind, -1)
    own = (1 - current.floor) * shares[:, 0]
    counted = trust.double() * own / (own + current.floor / rivals.count)
    gains = {}
    for other in others:
        mean = (lead[other] * shares).sum(-1)
        slope = float((mean * counted).sum()) - weight_nats
        bend = float((((lead[other].square() * shares).sum(-1) - mean.square()) * counted).sum())
        if slope > 0:
            gains[other] = 0.5 * slope * slope / max(bend, 1e-12)
    return gains


def _only(posterior: Posterior, places: list[int]) -> Posterior:
    return Posterior(posterior.weights[places], posterior.floor, posterior.losses, posterior.objective)
