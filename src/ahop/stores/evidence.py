"""What the scores of a query show, gathered block by block."""

from math import log

import torch
from torch import Tensor

from ahop._tensors import lowest
from ahop._typing import Scores
from ahop.unknown import as_features


class Evidence:
    """The four numbers that a detector of unknown queries looks at, from scores that come in parts."""

    def __init__(self, count: int) -> None:
        nothing = torch.full((count,), -torch.inf, dtype=torch.float64)
        self.best, self.rest = nothing, nothing.clone()
        self.known, self.mean, self.squares = (torch.zeros(count, dtype=torch.float64) for _ in range(3))
        self.rows = 0

    def see(self, scores: Scores, queries: slice | Tensor = slice(None)) -> None:
        """Scores (b, m) of some of the queries with more rows."""
        known = scores > 0.5 * lowest(scores.dtype)
        scores = scores.double()
        best, place = scores.max(-1, keepdim=True)
        rest = scores.scatter(-1, place, -torch.inf).logsumexp(-1)
        best = best.squeeze(-1)
        lower = torch.minimum(self.best[queries], best)
        self.rest[queries] = self.rest[queries].logaddexp(rest).logaddexp(lower)
        self.best[queries] = torch.maximum(self.best[queries], best)
        # Means and squares around them, joined as Chan has it: no differences of large numbers.
        count, before = known.sum(-1).double(), self.known[queries]
        mean = torch.where(known, scores, 0).sum(-1) / count.clamp_min(1)
        squares = torch.where(known, scores - mean.unsqueeze(-1), 0).square().sum(-1)
        total, step = (before + count).clamp_min(1), mean - self.mean[queries]
        self.squares[queries] += squares + step.square() * before * count / total
        self.mean[queries] += step * count / total
        self.known[queries] += count

    def features(self, rows: int) -> Tensor:
        """Evidence, lead, mean and spread, (b, 4), once so many rows were seen."""
        rest = self.rest if rows > 1 else self.best
        evidence = torch.logaddexp(self.best, self.rest) - log(max(1, rows))
        spread = (self.squares / self.known.clamp_min(1)).sqrt()
        return as_features(evidence, self.best - rest, self.mean, spread)
