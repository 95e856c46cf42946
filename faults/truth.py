"""What an answer must be: the formulas of recall, one query at a time over all rows, and whether an answer is that."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ahop.memory.model import Model
from ahop.separations.softmax import Softmax
from faults.campaign import WRONG
from faults.machines import require

# Roundings of a score that is computed another way, in units of the precision.
ROUNDINGS = 64.0
# Where scores may be off by more than this, in nats, they decide nothing.
LOOSE = 0.05


@dataclass(frozen=True)
class Truth:
    """Of b queries and the m rows that may be answered.

    Attributes:
        ids: (m,) numbers of the rows.
        scores: (b, m) with the prior.
        posterior: (b, m).
        unknown: (b,); None without a detector.
        slack: (b,) how far scores may be off, in nats; infinite where numbers are so large that nothing is said.
        steepness: nats of `unknown` for each nat of a score.
        is_smooth: whether a small change of a score is a small change of the posterior.
    """

    ids: Tensor
    scores: Tensor
    posterior: Tensor
    unknown: Tensor | None
    slack: Tensor
    steepness: float
    is_smooth: bool

    def in_single_precision(self) -> "Truth":
        """With the slack of an answer that was computed so, whatever the memory computes in."""
        wider = torch.finfo(torch.float32).eps / torch.finfo(self.scores.dtype).eps
        return replace(self, slack=self.slack * max(wider, 1.0))


@torch.no_grad()
def truth(
    model: Model,
    patterns: Tensor,
    queries: Tensor,
    ids: Sequence[int] | None = None,
    *,
    prior: Tensor | None = None,
    where: Sequence[int] | None = None,
    groups: Sequence[object] | None = None,
    same: Sequence[object] | None = None,
) -> Truth:
    """By the formulas.

    Args:
        ids: numbers of the rows; default 0, 1, 2, ...
        where: rows (not numbers) that may be answered; default all.
    """
    rows = torch.arange(len(patterns)) if where is None else torch.tensor(sorted(where), dtype=torch.long)
    numbers = torch.arange(len(patterns)) if ids is None else torch.tensor(list(ids), dtype=torch.long)
    stored = model.modulation(patterns)
    lowest = torch.finfo(patterns.dtype).min
    scores = queries.new_empty(len(queries), len(rows))
    for place, query in enumerate(queries):
        name = None if groups is None else str(groups[place])
        similarity = model.groups.get(name, model.similarity) if name is not None else model.similarity
        if len(rows):
            scores[place] = similarity.rows(rows)(stored[rows], query[None])[0]
    # A pattern whose prior is zero counts as not stored.
    possible = torch.ones(len(rows), dtype=torch.bool) if prior is None else prior[rows] > -torch.inf
    unknown = model.detector(scores[:, possible]) if model.detector is not None and bool(possible.any()) else None
    beta, largest = model.beta, _largest(stored, queries, scores, lowest)
    if same is not None:
        scores, unknown, largest = _together(model, scores, unknown, same, largest)
    separation = model.separation if model.separation.is_distribution else Softmax()
    weighed = scores
    if prior is not None:
        knows_nothing = (scores == lowest).all(-1, keepdim=True)
        # What weighs the scores must not weigh the prior: it counts once.
        weighed = scores.masked_fill(knows_nothing, 0) + prior[rows] / separation.beta
    if same is not None and isinstance(separation, Softmax):
        separation = Softmax(beta)  # each query has brought its floor
    posterior = separation(weighed) if len(rows) else weighed
    if not bool(possible.any()):
        posterior = torch.zeros_like(weighed)
    if model.detector is not None and unknown is None:
        unknown = scores.new_ones(len(scores))
    slack = beta * ROUNDINGS * torch.finfo(patterns.dtype).eps * largest
    return Truth(
        numbers[rows],
        weighed,
        posterior,
        unknown,
        slack.nan_to_num(torch.inf, torch.inf),
        _steepness(model),
        isinstance(separation, Softmax),
    )


def _largest(stored: Tensor, queries: Tensor, scores: Tensor, lowest: float) -> Tensor:
    """(b,) The largest number that a score is computed from: squares of entries, or scores themselves."""
    entries = torch.cat([stored.flatten(), queries.flatten()]).double().nan_to_num(0).abs()
    squares = float(entries.amax().square()) if len(entries) else 0.0
    known = scores.double().masked_fill(scores <= 0.5 * lowest, 0).abs()
    top = known.amax(-1) if scores.shape[-1] else torch.zeros(len(scores), dtype=torch.float64)
    return 1 + top + stored.shape[-1] * squares


def _together(
    model: Model, scores: Tensor, unknown: Tensor | None, same: Sequence[object], largest: Tensor
) -> tuple[Tensor, Tensor | None, Tensor]:
    """Sums of what queries of one origin say; a query that says nothing adds nothing."""
    entries = list(dict.fromkeys(same))
    lowest = torch.finfo(scores.dtype).min
    total = torch.full((len(entries), scores.shape[1]), lowest, dtype=torch.float64)
    odds, size = torch.zeros(len(entries), dtype=torch.float64), torch.zeros(len(entries), dtype=torch.float64)
    separation, detector = model.separation, model.detector
    for place, entry in enumerate(same):
        origin = entries.index(entry)
        size[origin] += largest[place]
        own = scores[place]
        if unknown is not None and detector is not None:
            chance = unknown[place].double().clamp(1e-7, 1 - 1e-7)
            odds[origin] += torch.logit(chance) - detector.log_prior_odds
        if not bool((own > 0.5 * lowest).any()):
            continue
        if isinstance(separation, Softmax) and separation.floor:
            own = separation(own[None])[0].log().clamp_min(lowest) / separation.beta
        before = total[origin] if bool((total[origin] != lowest).any()) else torch.zeros_like(total[origin])
        total[origin] = before + own.double()
    largest_float = torch.finfo(scores.dtype).max
    sums = total.clamp(-largest_float, largest_float).to(scores.dtype)
    if detector is None or unknown is None:
        return sums, None, size
    return sums, torch.sigmoid(detector.log_prior_odds + odds).to(scores), size


def _steepness(model: Model) -> float:
    if model.detector is None:
        return 0.0
    return float((model.detector.slopes / model.detector.scale).abs().sum())


def check_answer(name: str, wanted: Truth, k: int, indices: Any, posterior: Any, unknown: Any) -> None:
    """Numbers up to ties, posterior and unknown are the true ones; raises where they are not.

    Args:
        k: answers of each query that there must be room for.
    """
    found, sure = np.asarray(indices), np.asarray(posterior, dtype=float)
    count = len(wanted.scores)
    require(found.shape == (count, k) and sure.shape == (count, k), WRONG, f"{name}: shape {found.shape}, not {k}")
    require(bool(np.isfinite(sure).all()), WRONG, f"{name}: the posterior is {sure.tolist()}")
    place = {number: column for column, number in enumerate(wanted.ids.tolist())}
    for query in range(count):
        _check_one(f"{name}, query {query}", wanted, query, place, found[query].tolist(), sure[query])
    require((wanted.unknown is None) == (unknown is None), WRONG, f"{name}: unknown is {unknown}")
    if wanted.unknown is not None:
        off = np.abs(np.asarray(unknown, dtype=float).reshape(count) - wanted.unknown.double().numpy())
        allowed = 1e-5 + wanted.steepness * wanted.slack.numpy()
        require(
            bool((off <= allowed).all() and (off <= 1).all()),
            WRONG,
            f"{name}: unknown is {np.asarray(unknown).tolist()}, not {wanted.unknown.tolist()}",
        )


def _check_one(name: str, wanted: Truth, query: int, place: dict[int, int], found: list[int], sure: Any) -> None:
    there = [number for number in found if number >= 0]
    has_mass = int((wanted.scores[query] > -torch.inf).sum())
    expected = min(len(found), len(place))
    require(min(expected, has_mass) <= len(there) <= expected, WRONG, f"{name}: {found} of the rows {list(place)}")
    require(len(set(there)) == len(there), WRONG, f"{name}: a row twice in {found}")
    require(all(each in place for each in there), WRONG, f"{name}: {found} are not all among the rows {list(place)}")
    require(found[: len(there)] == there and not sure[len(there) :].any(), WRONG, f"{name}: {found}, {sure}")
    slack, columns = float(wanted.slack[query]), [place[each] for each in there]
    if slack > LOOSE or not there:
        return
    scores = wanted.scores[query].double()
    best = scores.sort(descending=True).values
    own = scores[columns]
    off = (own - best[: len(there)]).nan_to_num(0).abs()
    require(bool((off <= slack + 1e-9).all()), WRONG, f"{name}: {found} with the scores {own.tolist()}, not {best}")
    gaps = (best[:-1] - best[1:]).abs()
    if not wanted.is_smooth and bool((gaps <= 2 * slack).any()):
        return
    right = wanted.posterior[query].double()[columns].numpy()
    allowed = 1e-6 + 4 * slack * (right if wanted.is_smooth else 1.0)
    require(
        bool((np.abs(sure[: len(there)] - right) <= allowed).all()),
        WRONG,
        f"{name}: {found} with the posterior {sure.tolist()}, not {right.tolist()}",
    )
