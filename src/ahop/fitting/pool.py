"""Which similarities answer better together? A sparse, non-negative, log-linear pool of their held-out scores."""

from dataclasses import dataclass

import torch
from torch import Tensor

from ahop.fitting.posterior import Posterior, Rivals, fit_posterior

# What a unit of weight costs, in pairs' log-losses, where each member's scores are calibrated by themselves.
PENALTY = 1.0
# By how much a member must make the loss of all pairs fall, and that of each: a member costs time at every recall.
LEAST_GAIN, LEAST_GAIN_A_PAIR = 2.0, 0.02
MOST_MEMBERS = 5
# Of the candidates for one more place, those that promise most are tried in full.
TRIED = 3


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


def fit_pool(rivals: Rivals, trust: Tensor, first: int) -> Pool:
    """The first member, and those that better it: one at a time, as long as one is worth its place.

    Args:
        rivals: scores of all candidates, each calibrated by itself, so that a weight of one is its own best.
        first: the best candidate by itself.
    """
    members, total = [first], float(trust.sum())
    least = max(LEAST_GAIN, LEAST_GAIN_A_PAIR * total)
    current = fit_posterior(rivals.only(members), trust, PENALTY)
    while len(members) < min(MOST_MEMBERS, len(rivals.scores)):
        found = [
            (_with(rivals, trust, [*members, other], current), other)
            for other in _promising(rivals, trust, members, current)
        ]
        if not found:
            break
        best, other = min(found, key=lambda each: each[0].objective)
        if current.objective - best.objective < least:
            break
        members, current = [*members, other], best
    kept = [place for place, weight in enumerate(current.weights.tolist()) if weight > 0] or [0]
    members, current = [members[place] for place in kept], _only(current, kept)
    if len(members) == 1:
        return Pool(members, current, [0.0])
    without = [
        fit_posterior(rivals.only([each for each in members if each != member]), trust, PENALTY) for member in members
    ]
    losses = [float((trust * (each.losses - current.losses)).sum()) / max(total, 1e-12) for each in without]
    order = sorted(range(len(members)), key=lambda place: -losses[place])
    return Pool([members[place] for place in order], _only(current, order), [losses[place] for place in order])


def _promising(rivals: Rivals, trust: Tensor, members: list[int], current: Posterior) -> list[int]:
    """The candidates that promise most for one more place."""
    gains = promises(rivals, trust, members, current)
    return sorted(gains, key=lambda other: -gains[other])[:TRIED]


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


def _with(rivals: Rivals, trust: Tensor, members: list[int], current: Posterior) -> Posterior:
    start = torch.cat([0.7 * current.weights, current.weights.new_tensor([0.3])])
    return fit_posterior(rivals.only(members), trust, PENALTY, start, current.floor)


def _only(posterior: Posterior, places: list[int]) -> Posterior:
    return Posterior(posterior.weights[places], posterior.floor, posterior.losses, posterior.objective)
