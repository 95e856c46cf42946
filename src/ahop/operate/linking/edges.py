"""Candidates of each right row by itself, before rows decide together: asked of a memory."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ahop._core.blocks import blocks
from ahop._core.missing import holds_nan
from ahop._core.typing import Queries
from ahop.errors import UnsupportedError
from ahop.memory.memory import AssociativeMemory
from ahop.scale.indexes.build import by_products
from ahop.scale.indexes.lifted_candidates import lift_for_candidates
from ahop.scale.indexes.row_index import Index

# A detector that is surer than this is not believed: one row would outweigh what all others say.
LARGEST_LOG_ODDS = 30.0
# What is less likely by itself is no candidate: in large tables these are most.
LEAST_EDGE_PROBABILITY = 1e-5


@dataclass(frozen=True)
class Edges:
    """Candidates (m,), one for each pair of rows that may belong together, sorted by right row, best first.

    Attributes:
        left: (m,) rows of the left table.
        right: (m,) rows of the right table.
        share: (m,) the posterior of the left row, if the right row has an origin at all.
        rest: (b,) what is left of this posterior for rows that are no candidates.
        log_odds: (b,) how much likelier each right row is if it has an origin, whichever, in logarithms; zero where
            nobody knows.
        rows: how many left rows there are.
    """

    left: Tensor
    right: Tensor
    share: Tensor
    rest: Tensor
    log_odds: Tensor
    rows: int

    @classmethod
    def of(cls, ids: Tensor, posterior: Tensor, unknown: Tensor | None, prior: float, rows: int) -> "Edges":
        """From answers.

        Args:
            ids: (b, c) rows of the left table; -1 where there are no more.
            posterior: (b, c) of these.
            unknown: (b,) how likely each query comes from none; None if nobody knows.
            prior: logarithm of the odds of that, before a query is looked at.
        """
        shares = posterior.double().where(ids >= 0, 0)
        right, column = (shares > LEAST_EDGE_PROBABILITY).nonzero(as_tuple=True)
        odds = shares.new_zeros(len(shares))
        if unknown is not None:
            odds = (prior - torch.logit(unknown.double())).clamp(-LARGEST_LOG_ODDS, LARGEST_LOG_ODDS)
        share = shares[right, column]
        rest = (1 - shares.new_zeros(len(shares)).index_add_(0, right, share)).clamp_min(0)
        if len(right) == len(shares) * rows:  # all are candidates: what is missing to one is rounding
            rest = torch.zeros_like(rest)
        return cls(ids[right, column], right, share, rest, odds, rows)

    def __len__(self) -> int:
        return len(self.left)


# Above so many pairs of rows an index is built first, which looks at each pair by one matrix product.
MANY_PAIRS = 100_000_000
CANDIDATE_TOLERANCE = 0.05


def edges_of(
    memory: AssociativeMemory | Index, queries: Queries, candidates: int, groups: list[str] | None = None
) -> Edges:
    """The best candidates of each query, with a calibrated posterior, and how likely it has no origin."""
    if isinstance(memory, AssociativeMemory) and len(memory) * len(queries) > MANY_PAIRS:
        memory = _indexed(memory, queries, candidates)
    stored = memory.memory if isinstance(memory, Index) else memory
    rows, count = len(stored), min(candidates, len(stored))
    ids, posterior, unknown = [], [], []
    row_bytes = count * queries.shape[1] * queries.element_size()  # answers bring their patterns along
    for part in blocks(len(queries), row_bytes):
        answer = memory.recall(queries[part], count, groups=None if groups is None else groups[part])
        ids.append(answer.indices.cpu())
        posterior.append(answer.posterior.detach().cpu())
        unknown += [] if answer.unknown is None else [answer.unknown.detach().cpu()]
    if not ids:
        ids, posterior = [torch.empty(0, count, dtype=torch.long)], [torch.empty(0, count)]
    prior = 0.0 if stored.detector is None else stored.detector.log_prior_odds
    return Edges.of(torch.cat(ids), torch.cat(posterior), torch.cat(unknown) if unknown else None, prior, rows)


def posterior_of_all(
    memory: AssociativeMemory, queries: Queries, groups: Sequence[str] | None, rows: Tensor
) -> tuple[Tensor, Tensor]:
    """The posterior (s, n) of every left row for some of the queries (s,), and the log odds of having an origin."""
    chosen = None if groups is None else [groups[row] for row in rows.tolist()]
    answer = memory.recall(queries[rows], len(memory), groups=chosen)
    indices, posterior = answer.indices.cpu(), answer.posterior.detach().float().cpu()
    shares = torch.zeros(len(rows), len(memory)).scatter_(1, indices, posterior)
    if answer.unknown is None or memory.detector is None:
        return shares, torch.zeros(len(rows))
    odds = memory.detector.log_prior_odds - torch.logit(answer.unknown.detach().double().cpu())
    return shares, odds.clamp(-LARGEST_LOG_ODDS, LARGEST_LOG_ODDS).float()


def _indexed(memory: AssociativeMemory, queries: Queries, candidates: int) -> AssociativeMemory | Index:
    """An exhaustive index of the memory; the memory itself, if its similarity cannot be lifted."""
    stored, has_gaps = memory.modulation(memory.patterns), holds_nan(memory.patterns, queries)
    try:
        lifting = lift_for_candidates(memory.similarity, stored, queries, tolerance=CANDIDATE_TOLERANCE, gaps=has_gaps)
    except UnsupportedError:
        return memory
    return by_products(memory, lifting, candidates)
