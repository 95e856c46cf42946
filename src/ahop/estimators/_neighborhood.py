"""Neighbors of rows with missing values, and their weights."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import embedding_bag

from ahop._core.missing import filled, observed
from ahop.estimators._row_memory import row_keys
from ahop.separations.softmax import Softmax
from ahop.similarities.euclidean import EuclideanSimilarity

# What is further out than this many standard deviations is "far out" and no more, or a few entries would decide alone.
FAR_OUT = 3.0
# The last of the neighbors counts exp(-3) of the first. So every query has the temperature that suits where it is.
SEPARATION = Softmax(beta=3.0)
EUCLIDEAN = EuclideanSimilarity()


@dataclass(frozen=True)
class Neighbors:
    """The nearest rows of each query, in any order: their scores (b, k) and where they stand (b, k)."""

    scores: Tensor
    rows: Tensor

    def __getitem__(self, block: slice) -> "Neighbors":
        return Neighbors(self.scores[block], self.rows[block])

    @cached_property
    def shares(self) -> Tensor:
        """Weights of the neighbors, (b, k)."""
        return SEPARATION(_from_first_to_last(self.scores, self.scores))

    def mean_of(self, values: Tensor) -> Tensor:
        """The mean (b, d) of values (n, d) over the neighbors, each as much as it counts."""
        return embedding_bag(self.rows, values, per_sample_weights=self.shares, mode="sum")


class Twins:
    """Queries and rows that have the same values and the same gaps.

    Such a row knows nothing of what the query lacks. To leave it out makes the rows that were learned from the same as
    all others: what is filled in is never what was filled in before.
    """

    def __init__(self, queries: Tensor, rows: Tensor) -> None:
        keys = torch.from_numpy(row_keys(torch.cat([queries, rows]).numpy()).astype(np.int32))
        self.of_queries, self.of_rows = keys[: len(queries)], keys[len(queries) :]

    def leave_out(self, scores: Tensor, block: slice) -> Tensor:
        """The scores (b, n) of a block of queries, minus infinity where a query meets its twin; in place."""
        return scores.masked_fill_(self.of_queries[block].unsqueeze(-1) == self.of_rows, -torch.inf)


def in_reach(values: Tensor, scale: Tensor) -> Tensor:
    """Standardized values as they are compared."""
    return values.clamp(-FAR_OUT, FAR_OUT) * scale


def likeness_of_gapped(rows: Tensor, queries: Tensor) -> Tensor:
    """Scores (b, n) where both sides have gaps."""
    return EUCLIDEAN(rows, queries)


def likeness_of_complete(rows: Tensor, squares: Tensor, queries: Tensor) -> Tensor:
    """Scores (b, n) where rows have none: the expected squared distance, less what is the same for all rows.

    Args:
        squares: (n, d), expected squares of the rows: larger than their squares where they are in doubt.
    """
    return 2 * (filled(queries) @ rows.mT) - observed(queries) @ squares.mT


def nearest(scores: Tensor, count: int) -> Neighbors:
    behind = max(0, scores.shape[-1] - count)
    # Several times as fast as torch's own, which would sort them besides.
    rows = torch.from_numpy(np.argpartition(scores.numpy(), behind, axis=-1)[:, behind:])
    return Neighbors(scores.gather(-1, rows), rows)


def shares_of_all(scores: Tensor, count: int) -> Tensor:
    """Weights of all rows, (b, n), for `count` neighbors; those of the other rows are small and not zero."""
    behind = max(0, scores.shape[-1] - count)
    best = torch.from_numpy(np.partition(scores.numpy(), behind, axis=-1)[:, behind:])
    return SEPARATION(_from_first_to_last(scores, best))


def _from_first_to_last(scores: Tensor, best: Tensor) -> Tensor:
    """Zero at the best score, minus one at the last of those asked; all alike if these are, or if all are left out."""
    first = best.amax(-1, keepdim=True)
    last = best.where(best > -torch.inf, first).amin(-1, keepdim=True)
    span = first - last
    return ((scores - first) / span.where(span > 0, 1.0)).nan_to_num(0.0)
