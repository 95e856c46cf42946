"""Fit what another space makes of stored patterns: an affine map, and correlated noise."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn.functional import pad

from ahop._core.tensors import distinct
from ahop._core.typing import AnyQueries, Origins, Patterns, PerPattern, PerQuery
from ahop.errors import InvalidValueError
from ahop.similarities.forward import ForwardSimilarity

# Tried: ridges in mean eigenvalues of the originals, and shares of noise that all directions have in common.
STRENGTHS = tuple(10.0 ** (power / 2) for power in range(-6, 5))
PULLS = (0.1, 0.3, 0.6, 0.8, 1.0)
# The share that ridges are chosen under.
FIRST_PULL = 0.3
# Folds of the pairs, those of each that judge, and stored patterns that they are told apart from.
FORWARD_FOLDS, JUDGES, RIVALS = 4, 64, 1024
# Loss is that of the best of these temperatures, in the mean lead of the best, and of these floors.
FORWARD_TEMPERATURES = tuple(2.0 ** (power / 2) for power in range(13))
FORWARD_FLOORS = (0.001, 0.03, 0.2, 0.5)
# A pair that is all there is of a direction tells nothing about the noise there: at least so much of it is left over.
LEAST_LEFT = 0.05


@dataclass(frozen=True)
class ForwardChoice:
    """Settings chosen on pairs held out.

    Attributes:
        strength: ridge of the map, in mean eigenvalues of the originals.
        pull: of the noise towards one variance in all directions, a share.
        around_identity: the map is drawn to the identity, not to zero.
    """

    strength: float = 1.0
    pull: float = FIRST_PULL
    around_identity: bool = False


def choose_forward(patterns: Patterns, origins: Origins, copies: AnyQueries, weights: PerQuery) -> ForwardChoice:
    """Settings of `fit_forward` under which held-out copies tell their origins from others best.

    Args:
        patterns: (p, d) some of the stored ones, every origin among them.
        origins: (m,) rows of these.
    """
    trials = list(_folds(patterns, origins, copies, weights))
    if not trials:
        return ForwardChoice()
    targets = (True, False) if patterns.shape[1] == copies.shape[1] else (False,)
    ridges = [ForwardChoice(strength, FIRST_PULL, target) for target in targets for strength in STRENGTHS]
    best = _best(ridges, trials)
    return _best([replace(best, pull=pull) for pull in PULLS], trials)


def fit_forward(
    originals: Patterns, copies: AnyQueries, weights: PerPattern, chosen: ForwardChoice
) -> ForwardSimilarity:
    r"""$x = m + A (\xi - c) + e$, $e \sim N(0, S)$: $A$ by ridge, $S$ from residuals that were left out.

    A residual left out is $e / (1 - h)$ with the pair's leverage $h$. $S$ is drawn to $t I$ with the mean variance $t$.

    Args:
        originals: (m, d); a gap counts as the mean of its column, as in copies.
        copies: (m, q).
    """
    return _Ridge(originals, copies, weights, chosen.around_identity).fitted(chosen)


class _Ridge:
    """Pairs in the singular directions of their originals, so that each strength costs one product."""

    def __init__(self, originals: Patterns, copies: AnyQueries, weights: PerPattern, around_identity: bool) -> None:
        kept = weights > 0
        if int(kept.sum()) < 2:
            raise InvalidValueError("`pairs` must hold two at least, as 'forward' learns a map.")
        self.dtype = originals.dtype
        self.weights = (weights[kept] / weights[kept].sum()).double()
        originals, copies = _without_gaps(originals[kept].double()), _without_gaps(copies[kept].double())
        self.center, self.mean = self.weights @ originals, self.weights @ copies
        self.identity = torch.eye(copies.shape[1], originals.shape[1]).to(originals) * float(around_identity)
        about, root = originals - self.center, self.weights.sqrt().unsqueeze(-1)
        self.targets = root * (copies - self.mean - about @ self.identity.mT)
        self.left, self.values, self.right = _thin(root * about)
        self.unit = float(self.values.square().sum()) / min(about.shape)
        self.inside = self.left.mT @ self.targets

    def fitted(self, chosen: ForwardChoice) -> ForwardSimilarity:
        shrunk = self.values.square() / (self.values.square() + chosen.strength * self.unit)
        slopes = (self.inside.mT * (shrunk / self.values)) @ self.right.mT + self.identity
        leverage = self.left.square() @ shrunk + self.weights
        residuals = self.targets - self.left @ (shrunk.unsqueeze(-1) * self.inside)
        residuals = residuals / (1 - leverage).clamp_min(LEAST_LEFT).unsqueeze(-1)
        noise = residuals.mT @ residuals
        own = torch.eye(len(noise)).to(noise)
        variance = float(noise.diagonal().mean()) or 1.0
        noise = (1 - chosen.pull) * noise + chosen.pull * variance * own
        similarity = ForwardSimilarity(slopes.shape[1], slopes.shape[0]).to(self.dtype).to(slopes.device)
        similarity.slopes.copy_(slopes)
        similarity.precision.copy_(torch.cholesky_inverse(torch.linalg.cholesky(noise)))
        similarity.center.copy_(self.center)
        similarity.mean.copy_(self.mean)
        return similarity


@dataclass(frozen=True)
class _Trial:
    """One fold.

    Attributes:
        ridges: of the other folds, by what the map is drawn to.
        rivals: (r, d), the originals of the judges first.
        judges: (b, q) copies of the fold.
        places: (b,) of their originals.
    """

    pairs: tuple[Tensor, Tensor, Tensor]
    rivals: Tensor
    judges: Tensor
    places: Tensor
    ridges: dict[bool, _Ridge]

    def scores(self, choice: ForwardChoice) -> Tensor:
        target = choice.around_identity
        if target not in self.ridges:
            self.ridges[target] = _Ridge(*self.pairs, target)
        return self.ridges[target].fitted(choice)(self.rivals, self.judges).double()


def _folds(patterns: Patterns, origins: Origins, copies: AnyQueries, weights: PerQuery) -> Iterator[_Trial]:
    """Copies of one origin stay together."""
    different, places = distinct(origins)
    if len(different) < 2 * FORWARD_FOLDS:
        return
    generator = torch.Generator().manual_seed(0)
    fold = (torch.randperm(len(different), generator=generator).to(places) % FORWARD_FOLDS)[places]
    others = torch.randperm(len(patterns), generator=generator)[:RIVALS].to(origins)
    for number in range(FORWARD_FOLDS):
        seen, judges = fold != number, (fold == number).nonzero().squeeze(-1)[:JUDGES]
        own, own_places = distinct(origins[judges])
        rows = torch.cat([own, others[~torch.isin(others, own)]])
        pairs = patterns[origins[seen]], copies[seen], weights[seen]
        yield _Trial(pairs, patterns[rows], copies[judges], own_places, {})


def _best(choices: Sequence[ForwardChoice], trials: Sequence[_Trial]) -> ForwardChoice:
    def loss(choice: ForwardChoice) -> float:
        leads = [_lead(trial.scores(choice), trial.places) for trial in trials]
        width = max(each.shape[1] for each in leads)
        return _least_loss(torch.cat([pad(each, (0, width - each.shape[1]), value=-torch.inf) for each in leads]))

    return min(choices, key=loss)


def _lead(scores: Tensor, places: Tensor) -> Tensor:
    """Lead of each over the origin, (b, r)."""
    return scores - scores.gather(-1, places.unsqueeze(-1))


def _least_loss(ahead: Tensor) -> float:
    count = ahead.shape[1]
    spread = ahead.amax(-1, keepdim=True) - ahead
    unit = float(spread[spread < torch.inf].mean()) or 1.0
    losses = []
    for temperature in FORWARD_TEMPERATURES:
        shares = (-torch.logsumexp(temperature / unit * ahead, -1)).exp()
        losses += [float(-((1 - floor) * shares + floor / count).log().mean()) for floor in FORWARD_FLOORS]
    return min(losses)


def _without_gaps(rows: Tensor) -> Tensor:
    """Gaps filled by the mean of what was observed of a column."""
    return torch.where(rows.isnan(), rows.nanmean(0).nan_to_num(0), rows)


def _thin(rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Singular vectors and values of a matrix, by the smaller of its two Gram matrices; none that are rounding."""
    is_tall = rows.shape[0] >= rows.shape[1]
    squares, vectors = torch.linalg.eigh(rows.mT @ rows if is_tall else rows @ rows.mT)
    kept = squares > 1e-12 * squares[-1].clamp_min(1e-300)
    values, vectors = squares[kept].sqrt(), vectors[:, kept]
    others = (rows @ vectors if is_tall else rows.mT @ vectors) / values
    return (others, values, vectors) if is_tall else (vectors, values, others)
