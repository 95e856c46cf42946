"""Duplicate rows, where missing values are equal."""

from typing import Any

import numpy as np
from numpy.typing import NDArray


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
