"""Known groups speak for the next one: each is left out in turn, and answered as a new one would be."""

from dataclasses import dataclass
from math import comb

import torch
from torch import Generator, Tensor

from ahop.fitting.choosing.posterior import calibrated, closest_rivals
from ahop.fitting.settings import PosteriorSettings
from ahop.fitting.unlabeled.repeats import Repeats
from ahop.memory.model import Model
from ahop.memory.reference import Reference
from ahop.separations.softmax import Softmax
from ahop.similarities.aligned import AlignedSimilarity
from ahop.similarities.base import Similarity
from ahop.similarities.pooled import PooledSimilarity

# The log that a group's offset is found from, and the rows that are answered; scores that are held at once.
LOG, QUERIES_FOR_OFFSET, LEAST_ASKED, MOST_SCORES = 30, 100, 8, 2**26
# A log repeats itself more than known groups do, if chance were so small; a repetition or two may be an accident.
REPEATED_BY_CHANCE = 1e-3
# Likely origins of a query that its offset is looked for among, and rounds of origins and offsets in turn.
LIKELY, OFFSET_ROUNDS = 10, 6


@dataclass(frozen=True)
class Check:
    """Rows of groups that were left out, answered.

    Attributes:
        beta: the inverse temperature under which the answers are as sure as they are right,
        floor: and the share of them that scores say nothing about.
        loss: mean log-loss of the origins.
        rows: how many were answered.
        right: the share whose first answer is right, and
        said: the mean probability of these answers.
        spread: the standard deviation of the difference of the two among groups.
    """

    beta: float
    floor: float
    loss: float
    rows: int
    right: float
    said: float
    spread: float


@torch.no_grad()
def check(repeats: Repeats, model: Model, seed: int, settings: PosteriorSettings, finds_offset: bool) -> Check:
    """Answer each part of the rows from patterns that are made without it.

    A group that is stuck says nothing about a new one, and is not asked.

    Args:
        finds_offset: whether the offset of each part is taken off, found from rows of it as if nobody had labeled them.
    """
    generator, turns = Generator().manual_seed(seed), repeats.in_turn()
    most = max(LEAST_ASKED, min(QUERIES_FOR_OFFSET, MOST_SCORES // max(1, len(turns) * len(turns[0][0]))))
    scores, origins, part_of = [], [], []
    stuck = _stuck([repeats.rows[rows] for _, rows in turns])
    for part, (patterns, rows) in enumerate(turns):
        if part in stuck:
            continue
        drawn = rows[torch.randperm(len(rows), generator=generator)]
        log, asked = drawn[:LOG], drawn[LOG : LOG + most] if len(drawn) >= LOG + LEAST_ASKED else drawn[:most]
        if not len(asked):
            continue
        offset = offset_of(model, patterns, repeats.rows[log]) if finds_offset else 0.0
        scores.append(model.similarity(patterns, repeats.rows[asked] - offset))
        origins.append(repeats.identities[asked])
        part_of.append(torch.full((len(asked),), part))
    all_scores, all_origins, parts = torch.cat(scores), torch.cat(origins), torch.cat(part_of)
    weights = 1 / torch.bincount(parts)[parts].double()  # a group counts once, however long its log
    beta, posterior = calibrated(closest_rivals([all_scores], all_origins), weights / weights.mean(), settings)
    said, first = Softmax(beta, floor=posterior.floor)(all_scores).double().max(-1)
    right = (first == all_origins).double()
    return Check(
        beta,
        posterior.floor,
        float((weights * posterior.losses).sum() / weights.sum()),
        len(parts),
        float((weights * right).sum() / weights.sum()),
        float((weights * said).sum() / weights.sum()),
        _spread(right - said, parts),
    )


@torch.no_grad()
def offset_of(model: Model, patterns: Tensor, log: Tensor) -> float:
    """Estimate the offset of a log from its unknown origins: the median, in turns with these."""
    offset = 0.0
    for _ in range(OFFSET_ROUNDS):
        weights = model.separation(model.similarity(patterns, log - offset))
        share, rows = weights.topk(min(LIKELY, len(patterns)), -1)
        differences = log.unsqueeze(-2) - patterns[rows]
        is_known = ~differences.isnan()
        if not bool(is_known.any()):
            return offset
        values, order = differences[is_known].sort()
        total = share.unsqueeze(-1).expand_as(differences)[is_known][order].double().cumsum(0)
        offset = float(values[int(torch.searchsorted(total, total[-1:] / 2))])
    return offset


def repetitions(reference: Reference | None, log: Tensor) -> int:
    """Count the queries that repeat another one value by value; 0 if no more do than rows of known groups.

    A device whose sensor is stuck tells of a place where it was, and fits there as well as any other: only that it says
    the same again and again betrays it. Fine values never repeat by chance, coarse ones may, in as many rows as known
    groups have.
    """
    names = [] if reference is None else reference.groups or []
    if reference is None or not names:
        return 0
    rows = {name: [row for row, each in enumerate(names) if each == name] for name in names}
    known = sum(_repeated(reference.queries[own]) for own in rows.values())
    some = _evenly(log, max(1, len(names) // len(rows)))
    return _repeated(log) if _repeats_more(_repeated(some), len(some), known, len(names)) else 0


def _stuck(groups: list[Tensor]) -> set[int]:
    """Numbers of the groups whose rows repeat each other more than those of all others do."""
    some = [_evenly(rows, LOG) for rows in groups]
    repeated, counts = [_repeated(rows) for rows in some], [len(rows) for rows in some]
    return {
        number
        for number, (own, count) in enumerate(zip(repeated, counts, strict=True))
        if _repeats_more(own, count, sum(repeated) - own, sum(counts) - count)
    }


def _repeats_more(own: int, count: int, known: int, of: int) -> bool:
    """True if chance, at the rate of others, repeats so many rows of this count less often than is taken for chance."""
    rate = (known + 1) / (of + 1)
    fewer = sum(comb(count, each) * rate**each * (1 - rate) ** (count - each) for each in range(own))
    return 1 - fewer < REPEATED_BY_CHANCE


def _evenly(rows: Tensor, most: int) -> Tensor:
    return rows[:: max(1, -(-len(rows) // most))]


def _repeated(rows: Tensor) -> int:
    different = {tuple(row) for row in rows.nan_to_num(torch.inf).tolist()}
    return len(rows) - len(different)


def shifted(similarity: Similarity, offset: float, dimensions: int, dtype: torch.dtype) -> AlignedSimilarity:
    """The similarity for queries that lie so far above their origins."""
    aligned = AlignedSimilarity(similarity, dimensions).to(dtype)
    aligned.offset.fill_(offset)
    return aligned


def scaled(similarity: Similarity, factor: float) -> Similarity:
    """The similarity at another inverse temperature than that of its model."""
    other = PooledSimilarity([similarity])
    other.weights.fill_(factor)
    return other


def _spread(differences: Tensor, parts: Tensor) -> float:
    """Between groups, beyond what the chance of their rows explains."""
    names = sorted(set(parts.tolist()))
    if len(names) < 2:
        return 0.0
    means = torch.stack([differences[parts == name].mean() for name in names])
    chance = torch.stack([differences[parts == name].var(correction=0) / int((parts == name).sum()) for name in names])
    return float((means.var() - chance.mean()).clamp_min(0).sqrt())
