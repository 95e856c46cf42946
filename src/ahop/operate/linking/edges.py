"""Candidates of each right row by itself, before rows decide together."""

from dataclasses import dataclass

import torch
from torch import Tensor

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
