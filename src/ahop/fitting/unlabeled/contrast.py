"""Split-half information: the value of a similarity, and the scale of its scores, without known origins."""

from dataclasses import dataclass
from math import log
from typing import final

import torch
from torch import Generator, Tensor

from ahop._core.blocks import blocks
from ahop._core.missing import median_shift
from ahop._core.tensors import distinct, exponentials_, lowest
from ahop.memory.scoring import nearest
from ahop.separations.softmax import Softmax, below_top
from ahop.similarities.base import Similarity
from ahop.similarities.euclidean import EuclideanSimilarity

# Queries that are asked.
MOST_HALVED_QUERIES = 256
# Inverse temperatures that are tried, in units of the mean lead of the best, first in coarse steps; and floors.
INVERSE_TEMPERATURES, FLOORS = torch.logspace(-1.5, 2.0, 22, dtype=torch.float64), (0.001, 0.01, 0.03, 0.1, 0.3)
COARSE = 3
# The least exponent of a weight: less is lost beside the least floor, and products of two are normal numbers.
LEAST_OF_WEIGHTS = -30.0
# From this share of missing entries on, neighbors are divided.
MOSTLY = 0.5
# Among more patterns, halves choose between those that are near to any query, so many of each, and some that are drawn.
CONTRASTED_PATTERNS, NEAREST_RIVALS, DRAWN_RIVALS = 4096, 8, 2048


@dataclass(frozen=True)
class Contrast:
    """Information that halves of queries give about each other.

    Attributes:
        information: (b,) of each query, in nats; zero in the mean if halves know nothing of the origin.
        posterior: under which they tell most.
    """

    information: Tensor
    posterior: Softmax

    @property
    def worth(self) -> float:
        """Mean information of a query."""
        return float(self.information.mean())


@final
class Halves:
    r"""Queries cut in halves: how well is the other half of each found among those of all?

    If the halves $a$, $b$ of a query are damaged independently of each other, they are
    $n \sum_k p(k \mid a)\,p(k \mid b)$ times as likely together as apart. A half is a run of neighbors, as these are
    often damaged together, or every other one where so much is missing that a run may have nothing; what damages all
    dimensions together is mistaken for knowledge of the origin.

    Args:
        others: whose halves may be taken for those of the queries, too; nothing is said about them.
    """

    def __init__(self, patterns: Tensor, queries: Tensor, others: Tensor | None = None) -> None:
        self.counted = min(len(queries), MOST_HALVED_QUERIES)
        self.asked = queries[:MOST_HALVED_QUERIES]
        if others is not None:
            self.asked = torch.cat([self.asked, others[: MOST_HALVED_QUERIES - self.counted]])
        self.is_possible = min(len(self.asked), *patterns.shape) >= 2
        self.rows = _rows(patterns, self.asked) if self.is_possible else torch.arange(0)
        self.stored = patterns[self.rows]

    @torch.no_grad()
    def contrast(self, similarity: Similarity) -> Contrast:
        """Measure the split-half information under this similarity, and fit the posterior that finds halves best.

        The inverse temperature and the floor are those under which halves tell most. Halves that know nothing of the
        origin tell nothing, whatever the units and the form of the scores, nor does a pattern that is close to
        everything: the similarity under which they tell most is the one that finds most.
        """
        if not self.is_possible:
            return Contrast(torch.zeros(self.counted, dtype=torch.float64, device=self.asked.device), Softmax())
        chosen, asked = similarity.rows(self.rows), self.asked
        whole = _held(chosen(self.stored, asked))
        first, second = whole.topk(2, dim=-1).values.mT
        unit = max(float((first - second).mean()), 1e-30)
        halves = []
        for hidden in _first_halves(asked):
            parts = [asked.masked_fill(each, torch.nan) for each in (hidden, ~hidden)]
            one, other = (_held(chosen(self.stored, part)) for part in parts)
            share = _share(whole, one + other)
            halves.append((below_top(share * one)[0].float(), below_top(share * other)[0].float()))
        betas = (INVERSE_TEMPERATURES / unit).tolist()
        tried = {number: self._at(betas[number], halves) for number in range(0, len(betas), COARSE)}
        about = max(tried, key=lambda number: tried[number].worth)
        for number in range(max(0, about - COARSE + 1), min(len(betas), about + COARSE)):
            tried[number] = tried.get(number) or self._at(betas[number], halves)
        return max(tried.values(), key=lambda each: each.worth)

    def _at(self, beta: float, halves: list[tuple[Tensor, Tensor]]) -> Contrast:
        """At this inverse temperature, with the floor under which halves tell most."""
        together = [(_softmax(beta * one) @ _softmax(beta * other).mT).double() for one, other in halves]
        found = []
        for floor in FLOORS:
            told = torch.stack([_information(each, floor, len(self.rows)) for each in together]).mean(0)
            found.append(Contrast(told[: self.counted], Softmax(beta, floor)))
        return max(found, key=lambda each: each.worth)


def contrast(similarity: Similarity, patterns: Tensor, queries: Tensor) -> Contrast:
    """Measure the split-half information of queries under one similarity."""
    return Halves(patterns, queries).contrast(similarity)


def _first_halves(queries: Tensor) -> list[Tensor]:
    """Two ways to halve the dimensions, (d,) each: what is hidden from one half, and all that the other sees."""
    dimensions = queries.shape[1]
    number = torch.arange(dimensions, device=queries.device)
    if float(queries.isnan().double().mean()) > MOSTLY:
        return [number % 2 == 0, number // 2 % 2 == 0] if dimensions > 2 else [number % 2 == 0]
    return [(number + turn) % dimensions < dimensions // 2 for turn in (0, dimensions // 4)]


def _held(scores: Tensor) -> Tensor:
    """In double precision, and where a pair shares nothing, as low as single precision goes: sums must stay finite."""
    return scores.double().clamp_min(lowest(torch.float32))


def _share(whole: Tensor, halves: Tensor) -> float:
    """Weight of the scores of halves in the score of the whole: all, or half where gaps count as the average."""
    whole, halves = (each - each.mean(-1, keepdim=True) for each in (whole, halves))
    return float((whole * halves).sum() / halves.square().sum().clamp_min(1e-30))


def _softmax(below: Tensor) -> Tensor:
    """Softmax of scores less the best of their row, in place."""
    weights = exponentials_(below, LEAST_OF_WEIGHTS)
    return weights.div_(weights.sum(-1, keepdim=True))


def _information(together: Tensor, floor: float, count: int) -> Tensor:
    """Log-ratio of the probability of each half (b,) to chance among those of all queries.

    Args:
        together: (b, b) how likely one half of each query and the other half of each have the same origin.
    """
    odds = ((1 - floor) ** 2 * together + (2 - floor) * floor / count).log()
    return odds.diagonal() - 0.5 * (odds.logsumexp(0) + odds.logsumexp(1)) + log(len(odds))


def _rows(patterns: Tensor, queries: Tensor) -> Tensor:
    """The patterns that halves choose between: all, or those near to some query, once the medians of columns agree."""
    if len(patterns) <= CONTRASTED_PATTERNS:
        return torch.arange(len(patterns), device=patterns.device)
    moved = queries - median_shift(patterns, queries)
    near = nearest(EuclideanSimilarity(), patterns, moved, NEAREST_RIVALS).flatten()
    drawn = torch.randint(len(patterns), (DRAWN_RIVALS,), generator=Generator().manual_seed(0))
    return distinct(torch.cat([near, drawn.to(near)]))[0]


@torch.no_grad()
def drawn_origins(similarity: Similarity, posterior: Softmax, patterns: Tensor, queries: Tensor, seed: int) -> Tensor:
    """One origin for each query (b,), as likely as the posterior says."""
    generator = Generator().manual_seed(seed)
    found = []
    for part in blocks(len(queries), 1, MOST_HALVED_QUERIES):
        total = posterior(similarity(patterns, queries[part]).double()).cumsum(-1)
        place = torch.rand(len(total), 1, generator=generator, dtype=torch.float64).to(total.device) * total[:, -1:]
        found.append(torch.searchsorted(total, place).squeeze(-1).clamp_max(len(patterns) - 1))
    return torch.cat(found)
