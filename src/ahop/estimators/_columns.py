"""Columns of a table as coordinates: standardized, or cut where the classes change."""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.tree import DecisionTreeClassifier
from torch import Tensor

# A cut must leave so many rows, or this share of all, on either side of it; of few rows, a quarter.
LEAST_ROWS, LEAST_SHARE, MOST_SHARE = 20, 0.001, 0.25
# Beyond some hundred deviations a value says no more; and float32 could not square it.
FAR_OUT = 1e6


@dataclass(frozen=True)
class StandardColumns:
    """One coordinate for each column, in its standard deviations. NaN stays NaN: not observed.

    Attributes:
        center: (d,).
        scale: (d,).
    """

    center: NDArray[np.float64]
    scale: NDArray[np.float64]

    def apply(self, rows: NDArray[np.float64]) -> Tensor:
        return _single(np.clip((rows - self.center) / self.scale, -FAR_OUT, FAR_OUT))

    def undo(self, coordinates: Tensor) -> NDArray[np.float64]:
        return np.asarray(coordinates.double().numpy() * self.scale + self.center)


@dataclass(frozen=True)
class CutColumns:
    """Each column is cut into intervals; a coordinate is one if the value lies above its cut, else zero.

    So a straight line over the coordinates is a staircase over the column, with steps where the classes change. Where
    nothing was observed they are what they are on average; a column that had gaps has one coordinate more, which is
    one there.

    Attributes:
        cuts: of each column, in rising order, its least value first; none if it is constant.
        usual: of each column, the means of its coordinates.
        gaps: (d,), whether anything was missing.
    """

    cuts: tuple[NDArray[np.float64], ...]
    usual: tuple[NDArray[np.float64], ...]
    gaps: NDArray[np.bool_]

    def apply(self, rows: NDArray[np.float64]) -> Tensor:
        parts = [np.zeros((len(rows), 1))]  # a table of constant columns has coordinates too
        for column, cuts, usual, had_gaps in zip(rows.T, self.cuts, self.usual, self.gaps, strict=True):
            missing = np.isnan(column)[:, None]
            parts.append(np.where(missing, usual, _above(column, cuts)))
            if had_gaps:
                parts.append(missing)
        return _single(np.hstack(parts))


def standard_columns(rows: NDArray[np.float64], weights: NDArray[np.float64]) -> StandardColumns:
    seen = ~np.isnan(rows)
    mass = np.maximum((seen * weights[:, None]).sum(0), 1e-300)
    center = (np.where(seen, rows, 0.0) * weights[:, None]).sum(0) / mass
    moved = np.where(seen, rows - center, 0.0)
    deviation = np.sqrt((moved**2 * weights[:, None]).sum(0) / mass)
    return StandardColumns(center, np.where(deviation > 0, deviation, 1.0))


def cut_columns(
    rows: NDArray[np.float64], codes: NDArray[np.intp], weights: NDArray[np.float64], intervals: int
) -> CutColumns:
    """Cuts found by a small decision tree over each column alone."""
    share = min(max(LEAST_ROWS / len(rows), LEAST_SHARE), MOST_SHARE)
    tree = DecisionTreeClassifier(max_leaf_nodes=max(intervals, 2), min_weight_fraction_leaf=share, random_state=0)
    cuts, usual = [], []
    for column in rows.T:
        seen = ~np.isnan(column)
        values = np.unique(column[seen])
        if len(values) > 2 and intervals > 1:
            found = tree.fit(_narrow(column[seen, None]), codes[seen], weights[seen]).tree_
            inner = found.threshold[found.feature >= 0]
            values = np.unique(np.concatenate([values[:1], np.clip(inner, values[0], values[-1]), values[-1:]]))
        cuts.append(values[:-1])
        usual.append(
            np.average(_above(column[seen], values[:-1]), axis=0, weights=weights[seen]) if seen.any() else values
        )
    return CutColumns(tuple(cuts), tuple(usual), np.asarray(np.isnan(rows).any(0)))


def _above(column: NDArray[np.float64], cuts: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Flags (n, cuts): values above each cut."""
    return np.asarray(column[:, None] > cuts)


def _narrow(values: NDArray[np.float64]) -> NDArray[np.float64]:
    # Trees work in single precision and refuse what that cannot hold.
    most = float(np.finfo(np.float32).max)
    return np.clip(values, -most, most)


def _single(coordinates: NDArray[np.float64]) -> Tensor:
    return torch.from_numpy(coordinates.astype(np.float32))
