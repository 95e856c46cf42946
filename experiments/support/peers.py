"""What people use today when rows have gaps: scikit-learn's distance and imputer."""

import numpy as np
import torch
from sklearn.impute import KNNImputer
from sklearn.metrics.pairwise import nan_euclidean_distances
from torch import Tensor

import ahop


def nearest_by_nan_euclidean(table: Tensor, queries: Tensor) -> Tensor:
    """The closest row by the entries that both have; a query without any gets the first row."""
    distances = nan_euclidean_distances(queries.numpy(), table.numpy())
    return torch.from_numpy(np.nan_to_num(distances, nan=np.inf).argmin(1))


def nearest_by_imputing(table: Tensor, queries: Tensor) -> Tensor:
    """Gaps filled from the most similar rows of the table, then the closest row."""
    filled = KNNImputer().fit(table.numpy()).transform(queries.numpy())
    return nearest_by_nan_euclidean(table, torch.from_numpy(filled))


def nearest_without_shift(table: Tensor, pairs: ahop.Pairs, queries: Tensor) -> Tensor:
    """What an expert would do by hand: take the median difference of the pairs off, then the closest row."""
    shift = (pairs.queries - table[pairs.origins]).nanmedian(0).values.nan_to_num(0)
    return nearest_by_nan_euclidean(table, queries - shift)
