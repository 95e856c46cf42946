"""Rows of a table with their classes, each once, and how much each counts."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray


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
