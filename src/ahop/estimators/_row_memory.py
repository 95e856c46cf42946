"""The networks that classify by likeness to all rows that were learned from."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Generator, Tensor, nn

from ahop._core.blocks import blocks


def row_keys(values: NDArray[Any]) -> NDArray[np.intp]:
    """A number for each row; rows that are equal, gaps included, have equal numbers."""
    plain = np.ascontiguousarray(np.where(np.isnan(values), np.nan, values + 0.0))  # one NaN, and one zero
    as_bytes = plain.view(np.dtype((np.void, plain.shape[1] * plain.itemsize)))
    keys: NDArray[np.intp] = np.unique(as_bytes, return_inverse=True)[1].reshape(-1)
    return keys


def distinct_rows(values: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.intp]]:
    """The different rows, and which of them each row is."""
    _, first, keys = np.unique(row_keys(values), return_index=True, return_inverse=True)
    return values[first], keys


@dataclass(frozen=True)
class WeightedRows:
    """No two of them have the same row and class.

    Attributes:
        rows: (n, d).
        codes: (n,), the numbers of their classes.
        weights: (n,), above zero.
    """

    rows: NDArray[np.float64]
    codes: NDArray[np.intp]
    weights: NDArray[np.float64]

    def joined(self, others: Self) -> "tuple[WeightedRows, NDArray[np.intp]]":
        """Both together, and where `others` are found there."""
        both, places = distinct(
            np.concatenate([self.rows, others.rows]),
            np.concatenate([self.codes, others.codes]),
            np.concatenate([self.weights, others.weights]),
        )
        return both, places[len(self.rows) :]


def distinct(
    rows: NDArray[np.float64], codes: NDArray[np.intp], weights: NDArray[np.float64]
) -> tuple[WeightedRows, NDArray[np.intp]]:
    """Each row once with the weight of all its like, in an order of its own, and where each that was given is there.

    Three copies are a weight of three. Rows with gaps are alike to no other.
    """
    joined = np.column_stack([rows, codes])
    _, first, places = np.unique(joined, axis=0, return_index=True, return_inverse=True)
    places = places.ravel()
    together: NDArray[Any] = np.bincount(places, weights, minlength=len(first))
    return WeightedRows(rows[first], codes[first], together), places


# While it learns, a batch is compared with so many rows, drawn anew for each.
DRAWN = 1024
# What every class has of the shares, so that none of them is zero.
FLOOR = 1e-5


class RowMemory(nn.Module):
    r"""Each row votes for its class, with a weight of $\mathrm{softmax}(-\beta \lVert \Xi - x \rVert_2^2)$.

    The distance is one of learned coordinates. While it learns, a row is compared with others alone: its own vote would
    tell the answer.

    Args:
        width: how many coordinates rows have.
        embedding: how many to learn for the comparison; None for those of the rows.
    """

    stored: Tensor
    labels: Tensor
    log_weights: Tensor

    def __init__(self, width: int, embedding: int | None, classes: int) -> None:
        super().__init__()
        self.classes = classes
        self.embedding = nn.Identity() if embedding is None else nn.Linear(width, embedding)
        self.log_sharpness = nn.Parameter(torch.zeros(()))
        self.register_buffer("stored", torch.zeros(0, embedding or width))
        self.register_buffer("labels", torch.zeros(0, classes))
        self.register_buffer("log_weights", torch.zeros(0))

    @torch.no_grad()
    def store(self, rows: Tensor, codes: Tensor, weights: Tensor) -> None:
        """Keep these rows (n, d) and nothing else; `weights` (n,) is how many votes each has."""
        self.stored = torch.cat([self.embedded(rows[part]) for part in blocks(len(rows), 8 * rows.shape[1])])
        self.labels = nn.functional.one_hot(codes, self.classes).to(self.stored)
        self.log_weights = weights.log().to(self.stored)

    def forward(self, rows: Tensor) -> Tensor:
        """Logarithms of the shares of the classes, (b, c)."""
        return self._shares(self.embedded(rows), self.stored, self.labels, self.log_weights)

    def without_themselves(
        self, asked: Tensor, rows: Tensor, codes: Tensor, weights: Tensor, generator: Generator
    ) -> Tensor:
        """Leave-one-out form for those of `rows` (n, d) with these numbers, (b,), among some of the others."""
        drawn = torch.randperm(len(rows), generator=generator)[:DRAWN]
        labels = nn.functional.one_hot(codes[drawn], self.classes).to(rows)
        log_weights = weights[drawn].log().to(rows).masked_fill(asked.unsqueeze(1) == drawn, -torch.inf)
        return self._shares(self.embedded(rows[asked]), self.embedded(rows[drawn]), labels, log_weights)

    def embedded(self, rows: Tensor) -> Tensor:
        """Embedding (b, e) of rows (b, d); gaps are at the mean, zero."""
        placed: Tensor = self.embedding(rows.nan_to_num(0.0))
        return placed

    def _shares(self, queries: Tensor, patterns: Tensor, labels: Tensor, log_weights: Tensor) -> Tensor:
        sharpness = self.log_sharpness.exp()
        # The length of the query is the same for all patterns, and softmax takes no notice of it.
        own = log_weights - sharpness * patterns.square().sum(-1)
        votes = torch.addmm(own, 2 * sharpness * queries, patterns.mT).softmax(-1)
        return (votes @ labels + FLOOR).log()
