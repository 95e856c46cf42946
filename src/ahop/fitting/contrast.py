"""Which half belongs to which? What a similarity is worth, and its scores, where nobody knows the origins."""

from dataclasses import dataclass
from math import log

import torch
from torch import Generator, Tensor

from ahop._blocks import blocks
from ahop._tensors import distinct
from ahop.model import Model
from ahop.scoring import rank
from ahop.separations.softmax import Softmax
from ahop.similarities.base import Similarity
from ahop.similarities.euclidean import EuclideanSimilarity

# Queries that are asked.
MOST_QUERIES = 256
# Inverse temperatures that are tried, in units of the mean lead of the best; and floors.
BETAS, FLOORS = torch.logspace(-1.5, 2.0, 22, dtype=torch.float64), (0.001, 0.01, 0.03, 0.1, 0.3)
# From this share of missing entries on, neighbors are divided.
MOSTLY = 0.5
# Among more patterns, halves choose between those that are near to any query, so many of each, and some that are drawn.
MANY_PATTERNS, NEAR, DRAWN = 4096, 4, 2048


@dataclass(frozen=True)
class Contrast:
    """What halves of queries tell about each other.

    Attributes:
        information: (b,) of each query, in nats; zero in the mean if halves know nothing of the origin.
        posterior: under which they tell most.
    """

    information: Tensor
    posterior: Softmax


@torch.no_grad()
def contrast(similarity: Similarity, patterns: Tensor, queries: Tensor, others: Tensor | None = None) -> Contrast:
    r"""How well the other half of each query is found among those of all, and the posterior that finds it best.

    If the halves $a$, $b$ of a query are damaged independently of each other, they are
    $n \sum_k p(k \mid a)\,p(k \mid b)$ times as likely together as apart. The inverse temperature and the floor are
    those under which this tells most. Halves that know nothing of the origin tell nothing, whatever the units and the
    form of the scores, nor does a pattern that is close to everything: the similarity under which they tell most is
    the one that finds most. A half is a run of neighbors, as these are often damaged together, or every other one
    where so much is missing that a run may have nothing; what damages all dimensions together is mistaken for knowledge
    of the origin.

    Args:
        others: whose halves may be taken for those of the queries, too; nothing is said about them.
    """
    counted, dimensions = min(len(queries), MOST_QUERIES), patterns.shape[1]
    asked = queries[:MOST_QUERIES]
    if others is not None:
        asked = torch.cat([asked, others[: MOST_QUERIES - counted]])
    if len(asked) < 2 or len(patterns) < 2 or dimensions < 2:
        return Contrast(asked.new_zeros(counted, dtype=torch.float64), Softmax())
    rows = _rows(patterns, asked)
    chosen, stored = similarity.rows(rows), patterns[rows]
    whole = chosen(stored, asked).double()
    best = whole.topk(2, dim=-1).values
    unit = max(float((best[:, 0] - best[:, 1]).mean()), 1e-30)
    halves = []
    for first in _first_halves(asked):
        one, other = (chosen(stored, asked.masked_fill(hidden, torch.nan)).double() for hidden in (first, ~first))
        share = _share(whole, one + other)
        halves.append((share * one, share * other))
    found: Contrast | None = None
    for beta in (BETAS / unit).tolist():
        together = [(beta * one).softmax(-1) @ (beta * other).softmax(-1).mT for one, other in halves]
        for floor in FLOORS:
            told = torch.stack([_information(each, floor, len(rows)) for each in together]).mean(0)[:counted]
            if found is None or float(told.mean()) > float(found.information.mean()):
                found = Contrast(told, Softmax(beta, floor))
    assert found is not None
    return found


def _first_halves(queries: Tensor) -> list[Tensor]:
    """Two ways to halve the dimensions, (d,) each: what is hidden from one half, and all that the other sees."""
    dimensions = queries.shape[1]
    number = torch.arange(dimensions, device=queries.device)
    if float(queries.isnan().double().mean()) > MOSTLY:
        return [number % 2 == 0, number // 2 % 2 == 0] if dimensions > 2 else [number % 2 == 0]
    return [(number + turn) % dimensions < dimensions // 2 for turn in (0, dimensions // 4)]


def _share(whole: Tensor, halves: Tensor) -> float:
    """What the scores of halves count in the score of the whole: all, or half where gaps count as the average."""
    whole, halves = (each - each.mean(-1, keepdim=True) for each in (whole, halves))
    return float((whole * halves).sum() / halves.square().sum().clamp_min(1e-30))


def _information(together: Tensor, floor: float, count: int) -> Tensor:
    """How much likelier each half (b,) is found than by chance among those of all queries, in logarithms.

    Args:
        together: (b, b) how likely one half of each query and the other half of each have the same origin.
    """
    odds = ((1 - floor) ** 2 * together + (2 - floor) * floor / count).log()
    return odds.diagonal() - 0.5 * (odds.logsumexp(0) + odds.logsumexp(1)) + log(len(odds))


def _rows(patterns: Tensor, queries: Tensor) -> Tensor:
    """The patterns that halves choose between."""
    if len(patterns) <= MANY_PATTERNS:
        return torch.arange(len(patterns), device=patterns.device)
    near = rank(Model(EuclideanSimilarity()), patterns, queries, NEAR).ids.flatten()
    drawn = torch.randint(len(patterns), (DRAWN,), generator=Generator().manual_seed(0))
    return distinct(torch.cat([near, drawn.to(near)]))[0]


@torch.no_grad()
def drawn_origins(similarity: Similarity, posterior: Softmax, patterns: Tensor, queries: Tensor, seed: int) -> Tensor:
    """One origin for each query (b,), as likely as the posterior says."""
    generator = Generator().manual_seed(seed)
    found = []
    for part in blocks(len(queries), 1, MOST_QUERIES):
        total = posterior(similarity(patterns, queries[part]).double()).cumsum(-1)
        place = torch.rand(len(total), 1, generator=generator, dtype=torch.float64).to(total.device) * total[:, -1:]
        found.append(torch.searchsorted(total, place).squeeze(-1).clamp_max(len(patterns) - 1))
    return torch.cat(found)
