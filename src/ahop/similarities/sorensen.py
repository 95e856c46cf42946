"""The Sørensen similarity of two vectors of amounts."""

from typing import final

import torch
from torch import Tensor
from typing_extensions import override

from ahop._core.missing import filled, observed
from ahop._core.overlap import over_gaps, over_observed
from ahop._core.prepared import derived
from ahop._core.tensors import few_columns
from ahop._core.typing import Patterns, Queries, Scores
from ahop.similarities.base import Similarity


@final
class SorensenSimilarity(Similarity):
    r"""$-\sum_i |\xi_i - x_i| / \sum_i (|\xi_i| + |x_i|)$, 0 where both are zero.

    From -1, nothing in common, to 0, the same. Its distance is Bray and Curtis's; on strengths above a floor
    (`PowerTransform`) it is the metric of Wi-Fi positioning. With NaN, both sums are over the dimensions that both
    sides have.
    """

    @override
    def forward(self, patterns: Patterns, queries: Queries) -> Scores:
        amounts = derived(patterns, _amounts)
        totals = (queries.abs().sum(-1).unsqueeze(-1) + amounts.unsqueeze(-2)).to(queries.dtype)
        columns = few_columns(queries != 0, len(patterns))
        if columns is None or patterns.ndim > 2:
            return _ratio(torch.cdist(queries, patterns, p=1.0), totals)
        # Where all queries are zero, the difference is what the pattern has.
        some = patterns.index_select(1, columns)
        others = (amounts - some.abs().sum(-1, dtype=torch.float64)).clamp_min(0).to(queries.dtype)
        return _ratio(torch.cdist(queries[:, columns], some, p=1.0) + others, totals)

    @override
    def partial(self, patterns: Patterns, queries: Queries) -> Scores:
        # With zeros in the gaps a difference is also what only one side has: known, and taken off again.
        stored, sizes = derived(patterns, _with_sizes, copies=4)
        asked, in_queries = filled(queries).double(), observed(queries).double()
        alone = over_gaps(asked.abs(), patterns) + (1 - in_queries) @ sizes.mT
        totals = over_observed(asked.abs(), patterns) + in_queries @ sizes.mT
        return _ratio(torch.cdist(asked, stored, p=1.0) - alone, totals).to(queries.dtype)


def _amounts(patterns: Patterns) -> Tensor:
    return patterns.abs().sum(-1, dtype=torch.float64)


def _with_sizes(patterns: Patterns) -> tuple[Tensor, Tensor]:
    stored = filled(patterns).double()
    return stored, stored.abs()


def _ratio(differences: Tensor, totals: Tensor) -> Tensor:
    return -(differences / totals.where(totals > 0, 1)).clamp(0, 1)
