"""Fit a sparse, non-negative, log-linear pool of similarities to held-out scores."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from math import log

import torch
from torch import Tensor

from ahop.fitting.choosing.posterior import Posterior, Rivals, fit_posterior

# What a unit of weight costs, in pairs' log-losses, where each member's scores are calibrated by themselves.
PENALTY = 1.0
# Candidates farther behind the best than this, in mean log-loss, are left out. Those that the user brought are left out
# only if their log-loss is more than this share of that of a guess.
WITHIN, OF_A_GUESS = 1.0, 0.5
# By how much a member must make the loss of all pairs fall, times the root of their number, as chance would: a member
# costs time at every recall. A pool must do better than the best alone by so much.
LEAST_GAIN, LEAST_GAIN_OF_POOL = 0.08, 0.5
MOST_MEMBERS = 5
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


def fit_pool(rivals: Rivals, trust: Tensor, first: int, losses: Sequence[float], brought: Collection[int] = ()) -> Pool:
    """Weights of all candidates at once, most of them zero; then, one by one, those go that bring too little.

    Args:
        rivals: scores of all candidates, each calibrated by itself, so that a weight of one is its own best.
        first: the best candidate by itself, which stays alone if a pool brings too little.
        losses: mean log-loss of each candidate by itself.
        brought: candidates that the user brought, whose time he is willing to pay for: they stay whatever they bring,
            unless their weight is zero.
    """
    total = float(trust.sum())
    least = LEAST_GAIN * total**0.5
    alone = fit_posterior(rivals.only([first]), trust, PENALTY)
    most, guess = min(losses) + WITHIN, log(rivals.count)
    limits = [max(most, OF_A_GUESS * guess) if each in brought else most for each in range(len(losses))]
    members = [each for each, loss in enumerate(losses) if loss <= limits[each]]
    start = torch.full((len(members),), 1 / len(members), dtype=torch.float64)
    found = fit_posterior(rivals.only(members), trust, PENALTY, start)
    kept = [place for place, weight in enumerate(found.weights.tolist()) if weight > LEAST_POOL_WEIGHT]
    members, found = [members[place] for place in kept], _only(found, kept)
    while len(members) > 1 and (ours := [member for member in members if member not in brought]):
        without = {member: _without(member, members, rivals, trust) for member in ours}
        weakest = min(ours, key=lambda member: without[member].objective)
        if len(members) <= MOST_MEMBERS and without[weakest].objective - found.objective >= least:
            break
        members, found = [member for member in members if member != weakest], without[weakest]
    if len(members) < 2 or alone.objective - found.objective < max(least, LEAST_GAIN_OF_POOL):
        return Pool([first], alone, [0.0])
    worth = [
        float((trust * (_without(member, members, rivals, trust).losses - found.losses)).sum()) / total
        for member in members
    ]
    order = sorted(range(len(members)), key=lambda place: -worth[place])
    return Pool([members[place] for place in order], _only(found, order), [worth[place] for place in order])


def _without(member: int, members: list[int], rivals: Rivals, trust: Tensor) -> Posterior:
    return fit_posterior(rivals.only([each for each in members if each != member]), trust, PENALTY)


def cross_fitted(rivals: Rivals, trust: Tensor, folds: Tensor, start: Posterior) -> Rivals:
    """The pool of these members, the scores of each fold weighed by what the other folds say."""
    pooled = torch.empty_like(rivals.scores[0])
    for fold in range(int(folds.max()) + 1):
        seen, unseen = folds != fold, folds == fold
        others = Rivals(rivals.scores[:, seen], rivals.log_counts[seen], rivals.count)
        weights = fit_posterior(others, trust[seen], PENALTY, start.weights, start.floor).weights
        pooled[unseen] = torch.einsum("kmt,k->mt", rivals.scores[:, unseen], weights)
    return Rivals((pooled - pooled.amax(-1, keepdim=True)).unsqueeze(0), rivals.log_counts, rivals.count)


def promises(rivals: Rivals, trust: Tensor, members: list[int], current: Posterior) -> dict[int, float]:
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
        slope = float((mean * counted).sum()) - PENALTY
        bend = float((((lead[other].square() * shares).sum(-1) - mean.square()) * counted).sum())
        if slope > 0:
            gains[other] = 0.5 * slope * slope / max(bend, 1e-12)
    return gains


def _only(posterior: Posterior, places: list[int]) -> Posterior:
    return Posterior(posterior.weights[places], posterior.floor, posterior.losses, posterior.objective)
