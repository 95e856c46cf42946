"""Impute missing values by recall from similar rows and a step along their principal directions."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor
from torch.nn.functional import embedding

from ahop._core.blocks import blocks
from ahop._core.missing import filled, observed
from ahop.estimators._neighborhood import (
    Neighbors,
    Twins,
    in_reach,
    likeness_of_complete,
    likeness_of_gapped,
    nearest,
    shares_of_all,
)
from ahop.memory.memory import AssociativeMemory

BLOCK_BYTES = 16 * 2**20
# Neighbors that the first recall asks, from rows that have gaps themselves.
FIRST_NEIGHBORS = 20
# How much the variation of all rows adds to that of the neighbors, who are few.
COMMON = 0.5
# With many columns, the variation of all rows is kept as so many directions, found from so many rows.
DIRECTIONS, SEEN = 32, 512
# Of the trace: no system is worse conditioned than single precision can solve.
LEAST_RIDGE = 1e-6


@dataclass(frozen=True)
class Settings:
    """Settings by which a gap is filled.

    Attributes:
        neighbors: how many rows are asked.
        ridge: variance, in standard deviations of a column, that neighbors do not explain: the larger, the shorter
            the step that is taken from their mean.
    """

    neighbors: int = 96
    ridge: float = 0.3


@dataclass(frozen=True)
class Columns:
    """Statistics of each column of a standardized table.

    Attributes:
        scale: (d,), how much a difference counts.
        low: (d,), the least value that was observed, and the least to fill in.
        high: (d,), the largest.
    """

    scale: Tensor
    low: Tensor
    high: Tensor


class FilledRows:
    """Rows without gaps to recall from.

    Args:
        table: (n, d), standardized, with gaps.
        rows: the same, filled.
        errors: (d,), the variance of what was filled in.
    """

    def __init__(self, table: Tensor, rows: Tensor, columns: Columns, errors: Tensor) -> None:
        self.table, self.rows, self.columns = table, rows, columns
        self.doubt = errors * (1 - observed(table))
        self.compared = in_reach(rows, columns.scale)
        self.squares = self.compared.square() + self.doubt * columns.scale.square()

    def __len__(self) -> int:
        return len(self.rows)

    @cached_property
    def covariance(self) -> Tensor:
        moved = self.rows - self.rows.mean(0)
        return moved.mT @ moved / len(self) + self.doubt.mean(0).diag()

    @cached_property
    def directions(self) -> Tensor:
        """Factors of lower rank: (r, d), whose products with each other sum to it."""
        moved = (self.rows[:SEEN] - self.rows.mean(0)) / min(len(self), SEEN) ** 0.5
        _, vectors = torch.linalg.eigh(moved @ moved.mT)
        strongest: Tensor = vectors[:, -DIRECTIONS:].mT @ moved
        return strongest

    def neighbors(self, queries: Tensor, count: int) -> Neighbors:
        """The rows that are most alike, twins left out."""
        found, twins = [], Twins(queries, self.table)
        for block in blocks(len(queries), 4 * len(self) * queries.element_size(), BLOCK_BYTES):
            scores = likeness_of_complete(self.compared, self.squares, in_reach(queries[block], self.columns.scale))
            found.append(nearest(twins.leave_out(scores, block), count))
        return Neighbors(torch.cat([each.scores for each in found]), torch.cat([each.rows for each in found]))

    def fill(self, queries: Tensor, settings: Settings) -> Tensor:
        """The queries without gaps."""
        return self.fill_from(self.neighbors(queries, settings.neighbors), queries, settings.ridge)

    def fill_from(self, neighbors: Neighbors, queries: Tensor, ridge: float) -> Tensor:
        """Fill each row by the mean of its neighbors, moved as what was observed says."""
        answers = torch.empty_like(queries)
        count, width = neighbors.rows.shape[1], queries.shape[1]
        step = self._step_by_columns if width <= count + DIRECTIONS else self._step_by_neighbors
        for block in blocks(len(queries), 4 * count * width * queries.element_size(), BLOCK_BYTES):
            part = neighbors[block]
            mean = part.mean_of(self.rows)
            variation = embedding(part.rows, self.rows).sub_(mean.unsqueeze(1)).mul_(part.shares.sqrt().unsqueeze(-1))
            unexplained = ridge + part.mean_of(self.doubt)
            answers[block] = mean + step(variation, unexplained, queries[block], mean)
        answers = torch.maximum(torch.minimum(answers, self.columns.high), self.columns.low)
        nothing = queries.isnan().all(-1, keepdim=True)  # then nobody is near, and the mean of all is zero
        return queries.where(~queries.isnan(), answers.masked_fill(nothing, 0))

    def _step_by_columns(self, variation: Tensor, unexplained: Tensor, queries: Tensor, mean: Tensor) -> Tensor:
        r"""$C_{\cdot o} (C_{oo} + D)^{-1} (x_o - m_o)$, with one equation for each column."""
        covariance = variation.mT @ variation + COMMON * self.covariance
        seen = observed(queries)
        system = covariance * seen.unsqueeze(-1) * seen.unsqueeze(-2)
        return (covariance @ _solve(system, unexplained, filled(queries - mean))).squeeze(-1)

    def _step_by_neighbors(self, variation: Tensor, unexplained: Tensor, queries: Tensor, mean: Tensor) -> Tensor:
        """Solve one equation for each neighbor and common direction, where these are fewer."""
        common = (COMMON**0.5 * self.directions).expand(len(variation), -1, -1)
        variation = torch.cat([variation, common], dim=1)
        weighed = variation * (observed(queries) / unexplained).unsqueeze(1)
        towards = (weighed @ filled(queries - mean).unsqueeze(-1)).squeeze(-1)
        ones = torch.ones_like(towards)
        return (variation.mT @ _solve(weighed @ variation.mT, ones, towards)).squeeze(-1)


def recall_rows(table: Tensor, columns: Columns, errors: Tensor) -> FilledRows:
    """The rows of a table, each filled from the others as they are, with gaps."""
    return FilledRows(table, _fill_gaps(table, lambda rows: answer(table, rows, columns)), columns, errors)


def refill_rows(recalled: FilledRows, settings: Settings, errors: Tensor) -> FilledRows:
    """Fill each row from the others as recall has filled them."""
    rows = _fill_gaps(recalled.table, lambda rows: recalled.fill(rows, settings))
    return FilledRows(recalled.table, rows, recalled.columns, errors)


def answer(table: Tensor, queries: Tensor, columns: Columns) -> Tensor:
    """The queries without gaps: the mean of the rows that are alike, column by column of those observed there."""
    memory, compared, twins = AssociativeMemory(table), in_reach(table, columns.scale), Twins(queries, table)
    answers = torch.empty_like(queries)
    for block in blocks(len(queries), 8 * len(table) * queries.element_size(), BLOCK_BYTES):
        scores = likeness_of_gapped(compared, in_reach(queries[block], columns.scale))
        answers[block] = memory.read(shares_of_all(twins.leave_out(scores, block), FIRST_NEIGHBORS))
    return queries.where(~queries.isnan(), answers.nan_to_num(0.0))


def _fill_gaps(table: Tensor, fill: Callable[[Tensor], Tensor]) -> Tensor:
    with_gaps = table.isnan().any(-1).nonzero().squeeze(-1)
    return table.index_copy(0, with_gaps, fill(table[with_gaps])) if len(with_gaps) else table


def _solve(system: Tensor, diagonal: Tensor, right: Tensor) -> Tensor:
    """(A + diag) x = right for symmetric systems (b, p, p); returns (b, p, 1)."""
    along = system.diagonal(dim1=-2, dim2=-1)
    along += diagonal + LEAST_RIDGE * along.sum(-1, keepdim=True)
    solution: Tensor = torch.linalg.solve(system, right.unsqueeze(-1))
    return solution
