"""Fit levels of agreement: how closely copies agree with their originals, and values of a column by chance."""

import torch
from torch import Generator, Tensor

from ahop._core.tensors import distinct
from ahop._core.typing import Patterns, Queries
from ahop.similarities.agreement import AgreementSimilarity

# Each level has a quarter of the pairs of values that the next one has, after agreement to the digit.
MOST_LEVELS, SHARE_OF_NEXT_LEVEL = 8, 0.25
# Values of a column that stand for it, and those among which differences are taken.
MOST_VALUES, MOST_COMPARED = 1024, 512
# Entries that are taken for granted before any is seen, this share of them to the digit: of all columns.
EXPECTED_COPIES, EXPECTED_AGREEMENT = 5.0, 0.6


@torch.no_grad()
def fit_agreement(stored: Patterns, originals: Tensor, copies: Tensor, weights: Tensor) -> AgreementSimilarity:
    """Count levels in pairs of originals and copies (m, d), and among stored rows."""
    dimensions = stored.shape[1]
    values = max(1, min(MOST_VALUES, int((~stored.isnan()).sum(0).amin())))
    found = AgreementSimilarity(dimensions, MOST_LEVELS, values).to(stored)
    for column in range(dimensions):
        known = stored[:, column][~stored[:, column].isnan()].sort().values
        known = known if len(known) else known.new_zeros(1)
        found.population[column] = known[_spread(len(known), values)]
        some = known[_spread(len(known), min(len(known), MOST_COMPARED))]
        apart = (some.unsqueeze(-1) - some).abs()
        apart = apart[~torch.eye(len(some), dtype=torch.bool)].sort().values
        edges = _edges(apart)
        found.edges[column] = edges
        chance = _counts(apart, edges, torch.ones(len(apart), dtype=torch.float64))
        found.by_chance[column] = (chance + 1) / (chance + 1).sum()
        both = (originals[:, column] - copies[:, column]).abs()
        counts = _counts(both[~both.isnan()], edges, weights.double()[~both.isnan()])
        counts += EXPECTED_COPIES * _expected(edges)
        found.copied[column] = counts / counts.sum()
    return found


def draw_copies(similarity: AgreementSimilarity, rows: Patterns, generator: Generator) -> Queries:
    """Copies of rows, complete where these are: each entry agrees at a level drawn as often as in copies."""
    found = rows.clone()
    for column in range(rows.shape[1]):
        known = (~rows[:, column].isnan()).nonzero().squeeze(-1)
        if not len(known):
            continue
        level = torch.multinomial(similarity.copied[column].double(), len(known), True, generator=generator)
        apart = (similarity.population[column] - rows[known, column].unsqueeze(-1)).abs()
        fits = torch.searchsorted(similarity.edges[column].contiguous(), apart) == level.unsqueeze(-1)
        fits |= ~fits.any(-1, keepdim=True)  # where no value is so close, any is taken
        drawn = torch.multinomial(fits.double(), 1, generator=generator).squeeze(-1)
        found[known, column] = torch.where(level == 0, rows[known, column], similarity.population[column][drawn])
    return found


def _edges(apart: Tensor) -> Tensor:
    """The largest difference of each level but the last, from zero on; `apart` is sorted.

    Where values are few, the last edge is there again, and nothing lies between the two.
    """
    if not len(apart):
        return apart.new_zeros(MOST_LEVELS - 1)
    tails = SHARE_OF_NEXT_LEVEL ** torch.arange(MOST_LEVELS - 2, 0, -1, dtype=torch.float64)
    places = (tails * len(apart)).long().clamp_max(len(apart) - 1)
    edges, _ = distinct(torch.cat([apart.new_zeros(1), apart[places]]))
    return torch.cat([edges, edges[-1:].expand(MOST_LEVELS - 1 - len(edges))])


def _counts(apart: Tensor, edges: Tensor, weights: Tensor) -> Tensor:
    level = torch.searchsorted(edges, apart.contiguous())
    return torch.bincount(level, weights, MOST_LEVELS).double()  # of nothing it would be whole numbers


def _expected(edges: Tensor) -> Tensor:
    """Shares of the levels that there are, before any copy is seen; none of the others."""
    is_there = torch.cat([edges.new_ones(1), edges.diff() > 0, edges.new_ones(1)]).double()
    found = (1 - EXPECTED_AGREEMENT) * is_there / (is_there.sum() - 1)
    found[0] = EXPECTED_AGREEMENT
    return found


def _spread(count: int, wanted: int) -> Tensor:
    """Places of `wanted` of `count` rows, evenly spread."""
    return (torch.arange(wanted) * count // wanted).clamp_max(count - 1)
