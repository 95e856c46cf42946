"""The `duplicates` function: which rows of one table are the same."""

from dataclasses import dataclass
from math import log
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ahop import _optional
from ahop._blocks import blocks
from ahop._checks import check_count, check_rate
from ahop._typing import RowsLike
from ahop.fitting.fit import fit
from ahop.linking.edges import Edges
from ahop.linking.propagation import propagate
from ahop.memory import AssociativeMemory
from ahop.model import Model
from ahop.ranking import posterior_of
from ahop.scoring import rank
from ahop.similarities.euclidean import EuclideanSimilarity

# Rows that the corruption is learned from, at most and at least.
LEARNED_FROM, LEAST_QUERIES = 2048, 16
# Neighbors that a nearest row is compared with, and how often one that is no copy leads by so much.
NEIGHBORS, CHANCE = 16, 0.01


@dataclass(frozen=True)
class Duplicates:
    """Which rows are the same: a long table with a line for each pair, each pair once, likeliest first.

    Attributes:
        left: (m,) labels of the rows that come first in the table, or their numbers if there are no labels.
        right: (m,) of those that come behind.
        probability: (m,) that both are copies of the same.
        clusters: rows that are the same by pairs of this table, in the order of the table.
    """

    left: NDArray[Any]
    right: NDArray[Any]
    probability: NDArray[np.float64]
    clusters: tuple[tuple[Any, ...], ...]

    def __len__(self) -> int:
        return len(self.left)

    def __str__(self) -> str:
        return f"{len(self)} pairs of rows that are the same, in {len(self.clusters)} clusters."

    def to_dict(self) -> dict[str, NDArray[Any]]:
        """The columns left, right and probability by name."""
        return {"left": self.left, "right": self.right, "probability": self.probability}

    def to_frame(self) -> Any:
        """The same as a frame of pandas."""
        return _optional.pandas().DataFrame(self.to_dict())

    def to_arrow(self) -> Any:
        """The same as a table of Arrow."""
        return _optional.pyarrow().table({name: column.tolist() for name, column in self.to_dict().items()})


def duplicates(
    table: AssociativeMemory | RowsLike,
    *,
    least: float = 0.9,
    candidates: int = 16,
    progress: bool = True,
) -> Duplicates:
    """Pairs of rows of one table that are copies of the same, and clusters of such rows.

    Every row is asked for among all others, and never answers with itself. A pair has the odds that each of its rows
    gives to the other, in the mean of their logarithms; how many rows have a copy at all is estimated.

    Args:
        table: rows, NaN where nothing was observed: how copies differ is learned without labels, between two halves of
            the table. Or a fitted memory that stores the table.
        least: probability from which a pair is told. Their order is to be relied on more than their size: too many rows
            are taken to have a copy where copies are few or small changes are all there is.
        candidates: rows that are considered for each row: a cluster of more rows may fall apart.
        progress: show a bar while it is learned.
    """
    least, candidates = check_rate("least", least), check_count("candidates", candidates)
    memory = table if isinstance(table, AssociativeMemory) else _learned(AssociativeMemory(table), progress)
    names = np.arange(len(memory)) if memory.labels is None else memory.labels
    if len(memory) < 2:
        return Duplicates(names[:0], names[:0], np.empty(0), ())
    first, second, odds = _pairs(_edges(memory, candidates))
    probability = torch.sigmoid(odds)
    kept = (probability >= least).nonzero().squeeze(-1)
    kept = kept[probability[kept].argsort(descending=True, stable=True)]
    ours, theirs = first[kept].numpy(), second[kept].numpy()
    clusters = tuple(tuple(names[rows].tolist()) for rows in _clusters(ours, theirs))
    return Duplicates(names[ours], names[theirs], probability[kept].numpy(), clusters)


def _learned(memory: AssociativeMemory, progress: bool) -> AssociativeMemory:
    """The memory of all rows, with what rows that have a copy, by a clear lead of the nearest, taught as queries.

    Most rows of a table have no copy, and queries of no stored pattern teach nothing.
    """
    asked = _with_clear_lead(memory.patterns)
    if len(asked) < LEAST_QUERIES:  # there is little to learn: halves of the table say so
        asked = torch.randperm(len(memory), generator=torch.Generator().manual_seed(0))[: len(memory) // 2]
    is_stored = torch.ones(len(memory), dtype=torch.bool).index_fill_(0, asked, False)
    if len(asked):
        half = AssociativeMemory(memory.patterns[is_stored])
        queries = memory.patterns[asked[:LEARNED_FROM]]
        memory.model = fit(half, queries=queries, similarity="auto", progress=progress).model
    return memory


def _with_clear_lead(patterns: Tensor) -> Tensor:
    """Rows whose nearest other row leads by more than chance, where that other row is not among them.

    The k-th gap between neighbors, times k, has the same mean for all k where the neighbors are drawn alike (Renyi), so
    that the lead of a nearest row that is no copy is an exponential variable in units of that mean.
    """
    nearest = min(NEIGHBORS, len(patterns) - 1)
    if nearest < 3:
        return torch.empty(0, dtype=torch.long)
    itself = torch.arange(len(patterns), device=patterns.device)
    ranked = rank(Model(EuclideanSimilarity()), patterns, patterns, nearest, itself=itself)
    distances = (-ranked.scores.double()).clamp_min(0).sqrt()
    gaps = (distances[:, 1:] - distances[:, :-1]) * torch.arange(1, nearest, device=distances.device)
    leads = gaps[:, 0] > -log(CHANCE) * gaps[:, 1:].mean(-1)
    found: dict[int, None] = {}
    for row, other in zip(leads.nonzero().squeeze(-1).tolist(), ranked.ids[leads, 0].tolist(), strict=True):
        if other not in found:
            found[row] = None
    return torch.tensor(list(found), dtype=torch.long)


def _edges(memory: AssociativeMemory, candidates: int) -> Edges:
    """Of each row those that it may be the same as."""
    stored, model = memory.modulation(memory.patterns), memory.model
    count = min(candidates, len(memory) - 1)
    ids, posterior, unknown = [], [], []
    for part in blocks(len(memory), 8 * len(memory) * stored.element_size()):
        itself = torch.arange(part.start, part.stop, device=stored.device)
        ranked = rank(model, stored, memory.patterns[part], count, log_prior=memory.log_prior, itself=itself)
        shares, doubt = posterior_of(ranked, model, count)
        ids.append(ranked.ids.cpu())
        posterior.append(shares.cpu())
        unknown += [] if doubt is None else [doubt.cpu()]
    prior = 0.0 if model.detector is None else model.detector.log_prior_odds
    doubts = torch.cat(unknown) if unknown else None
    return Edges.of(torch.cat(ids), torch.cat(posterior), doubts, prior, len(memory))


def _pairs(edges: Edges) -> tuple[Tensor, Tensor, Tensor]:
    """Each pair once, the row first that comes first; and its odds, in logarithms."""
    activity = propagate(edges, one_to_one=False).activity
    odds = edges.share.log() + edges.log_odds[edges.right] + log(activity)
    low, high = torch.minimum(edges.left, edges.right), torch.maximum(edges.left, edges.right)
    keys, place = torch.unique(low * edges.rows + high, return_inverse=True)
    total, count = (
        torch.zeros(len(keys), dtype=torch.float64).index_add_(0, place, each) for each in (odds, torch.ones_like(odds))
    )
    return keys // edges.rows, keys % edges.rows, total / count


def _clusters(first: NDArray[Any], second: NDArray[Any]) -> list[list[int]]:
    """Rows that hang together by pairs, in rising order."""
    leader: dict[int, int] = {}

    def found(row: int) -> int:
        while leader.setdefault(row, row) != row:
            leader[row] = leader[leader[row]]
            row = leader[row]
        return row

    for one, other in zip(first.tolist(), second.tolist(), strict=True):
        ours, theirs = sorted((found(one), found(other)))
        leader[theirs] = ours
    members: dict[int, list[int]] = {}
    for row in sorted(leader):
        members.setdefault(found(row), []).append(row)
    return list(members.values())
