"""Hard negatives: the closest rivals of each copy among all patterns."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ahop._core.tensors import distinct
from ahop._core.typing import Patterns
from ahop.memory.scoring import nearest
from ahop.memory.unknown import Evidence
from ahop.similarities.base import Similarity

# Products for the scan of all patterns: fewer pairs are looked at where there are more patterns, but some always are.
SCANNED_WORK, LEAST_SCANNED = 1 << 34, 32
# Rivals of each pair that are taken as they are, and those that stand for all others.
CLOSEST_NEGATIVES, DRAWN_NEGATIVES = 128, 1024


@dataclass(frozen=True)
class HardNegatives:
    """All stored patterns as held-out copies see them.

    Attributes:
        own: (b, 1) score of the origin.
        closest: (b, c) of the closest rivals; minus infinity for the origin.
        drawn: (b, p) of others; minus infinity for those that are counted already.
        log_each: (b, 1) logarithm of how many patterns each drawn one stands for.
        count: how many patterns are stored.
    """

    own: Tensor
    closest: Tensor
    drawn: Tensor
    log_each: Tensor
    count: int

    @property
    def scores(self) -> Tensor:
        """The origins' in the first column."""
        return torch.cat([self.own, self.closest, self.drawn], dim=-1)

    @property
    def log_counts(self) -> Tensor:
        """Logarithm of the number of patterns that each score stands for."""
        alone = torch.zeros_like(torch.cat([self.own, self.closest], dim=-1))
        return torch.cat([alone, self.log_each.expand_as(self.drawn)], dim=-1)

    def features(self, with_origin: bool) -> Tensor:
        """Features for a detector of unknown queries, (b, 4), with the origin stored or left out."""
        best = torch.cat([self.own, self.closest], dim=-1) if with_origin else self.closest
        rest = torch.logsumexp(self.drawn.double() + self.log_each, -1)
        return Evidence.of_some(best, rest, self.drawn, self.count - (not with_origin)).features()


def pairs_to_scan(patterns: Patterns) -> int:
    """Number of held-out pairs that the work allows."""
    return max(LEAST_SCANNED, SCANNED_WORK // max(1, patterns.numel()))


@torch.no_grad()
def hard_negatives(
    patterns: Patterns, origins: Tensor, copies: Tensor, near: Similarity, judges: Sequence[Similarity], seed: int
) -> HardNegatives:
    """Each copy beside its origin, the closest of all patterns, and some that are drawn from the others.

    Args:
        origins: (b,) rows of the patterns.
        near: the similarity that tells which are close.
        judges: for each copy, the similarity that has not seen its origin.
    """
    drawing, origins = torch.Generator().manual_seed(seed), origins.to(patterns.device)
    rows = distinct(torch.randint(len(patterns), (DRAWN_NEGATIVES,), generator=drawing).to(patterns.device))[0]
    closest = nearest(near, patterns, copies, min(CLOSEST_NEGATIVES, len(patterns)))
    scores = []
    for copy, origin, near_by, judge in zip(copies, origins, closest, judges, strict=True):
        chosen = torch.cat([origin.view(1), near_by, rows])
        scores.append(judge(patterns[chosen], copy.unsqueeze(0)))
    found = torch.cat(scores)
    own, of_closest, drawn = found[:, :1], found[:, 1 : 1 + closest.shape[1]], found[:, 1 + closest.shape[1] :]
    of_closest = of_closest.masked_fill(closest == origins.unsqueeze(-1), -torch.inf)
    counted = torch.stack([torch.isin(rows, each) for each in torch.cat([origins.unsqueeze(-1), closest], dim=-1)])
    drawn = drawn.masked_fill(counted, -torch.inf)
    left = len(patterns) - 1 - (~torch.isneginf(of_closest)).sum(-1, keepdim=True)
    log_each = (left / (~counted).sum(-1, keepdim=True).clamp_min(1)).double().log()
    return HardNegatives(own, of_closest, drawn, log_each, len(patterns))
