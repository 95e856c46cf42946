"""Dimensions redrawn at random."""

from math import log
from typing import final

import torch
from torch import Generator
from typing_extensions import override

from ahop._blocks import blocks
from ahop._checks import check_rate
from ahop._typing import Patterns, Queries, Scores
from ahop.errors import InvalidValueError
from ahop.variants.base import Variant


@final
class MaskedVariant(Variant):
    r"""Each dimension is, with probability `rate`, redrawn from $\mathcal G = U[\text{low}, \text{high}]$.

    The likelihood is a density over the redrawn dimensions and a probability over the kept ones. The paper leaves
    out the factor $(1 - p)$ of each kept dimension; without it the posterior is wrong.

    Paper:
        [def:masked-var].
    """

    def __init__(self, rate: float, low: float = -1.0, high: float = 1.0) -> None:
        super().__init__()
        self.rate = check_rate("rate", rate)
        if not low < high:
            raise InvalidValueError(f"`low` must be below `high`; got {low!r} and {high!r}.")
        self.low, self.high = float(low), float(high)

    @override
    def configuration(self) -> dict[str, object]:
        return {"rate": self.rate, "low": self.low, "high": self.high}

    @override
    def corrupt(self, originals: Queries, generator: Generator) -> Queries:
        redrawn = torch.rand(originals.shape, generator=generator) < self.rate
        values = torch.rand(originals.shape, generator=generator, dtype=originals.dtype)
        return torch.where(redrawn, self.low + (self.high - self.low) * values, originals)

    @override
    def log_likelihood(self, patterns: Patterns, queries: Queries) -> Scores:
        inside = (queries >= self.low) & (queries <= self.high)
        kept = log(1 - self.rate) if self.rate < 1 else -torch.inf
        redrawn = log(self.rate / (self.high - self.low)) if self.rate > 0 else -torch.inf
        if_redrawn = torch.where(inside, redrawn, -torch.inf).to(patterns)
        scores = patterns.new_empty(len(queries), len(patterns))
        for rows in blocks(len(queries), patterns.numel() * patterns.element_size()):
            same = queries[rows].unsqueeze(1) == patterns
            scores[rows] = torch.where(same, kept, if_redrawn[rows].unsqueeze(1)).sum(-1)
        return scores
