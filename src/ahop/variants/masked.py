"""Dimensions redrawn at random."""

from math import log
from typing import final

import torch
from torch import Generator
from typing_extensions import override

from ahop._core.blocks import blocks
from ahop._core.checks import check_rate
from ahop._core.typing import Patterns, Queries, Scores
from ahop.errors import InvalidValueError
from ahop.variants.base import Variant

# How many values a draw from G can take, as `torch.rand` has them: the odds against hitting a given one by chance.
LEVELS = 2**24


@final
class MaskedVariant(Variant):
    r"""Each dimension is, with probability `rate`, redrawn from $\mathcal G = U[\text{low}, \text{high}]$.

    The likelihood is a probability, with $\mathcal G$ uniform over the values that a random generator can give: a
    value that agrees by chance is then rare, however large the rate. The paper leaves out the factor $(1 - p)$ of
    each kept dimension; without it the likelihood does not sum to one.

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
        redrawn = (torch.rand(originals.shape, generator=generator) < self.rate) & ~originals.isnan()
        values = torch.rand(originals.shape, generator=generator, dtype=originals.dtype)
        return torch.where(redrawn, self.low + (self.high - self.low) * values, originals)

    @override
    def log_likelihood(self, patterns: Patterns, queries: Queries) -> Scores:
        inside = (queries >= self.low) & (queries <= self.high)
        kept = log(1 - self.rate) if self.rate < 1 else -torch.inf
        redrawn = log(self.rate / LEVELS) if self.rate > 0 else -torch.inf
        if_other = torch.where(inside, patterns.new_tensor(redrawn), -torch.inf)
        if_same = torch.logaddexp(if_other, torch.full_like(if_other, kept))
        scores = patterns.new_empty(len(queries), len(patterns))
        for rows in blocks(len(queries), patterns.numel() * patterns.element_size()):
            same = queries[rows].unsqueeze(1) == patterns
            scores[rows] = torch.where(same, if_same[rows].unsqueeze(1), if_other[rows].unsqueeze(1)).sum(-1)
        return scores
