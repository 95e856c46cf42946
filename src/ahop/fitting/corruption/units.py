"""Robust location and scale of observed values."""

import torch
from torch import Tensor

# Values farther from the middle than so many spreads are told apart from the others, and not from each other.
REACH = 8.0
# Where the robust spread is this much smaller than the standard deviation, values far off have made the latter.
FAR_OFF = 0.2
# Values lie on a grid if at most this share of them differ, and at least so many do.
MOST_DIFFERENT, FEW_VALUES = 0.25, 8


def units(copies: Tensor, own: bool) -> tuple[Tensor, Tensor, Tensor]:
    """The middle of all copies; the scale of each dimension, and its place from that middle.

    One scale for all, and no place, unless dimensions have units of their own.
    """
    values = copies[~torch.isnan(copies)]
    middle, overall = _middle_and_spread(values) if len(values) else (copies.new_zeros(()), copies.new_ones(()))
    size = copies.shape[1]
    if not own:
        return middle, overall.expand(size).clone(), torch.zeros(size, dtype=torch.float64)
    columns = [column[~torch.isnan(column)] for column in copies.mT]
    known = [_middle_and_spread(column) if len(column) else (middle, overall) for column in columns]
    return middle, torch.stack([spread for _, spread in known]), torch.stack([place for place, _ in known]) - middle


def _middle_and_spread(values: Tensor) -> tuple[Tensor, Tensor]:
    """Median, and the standard deviation; by the median distance where values far off make it meaningless."""
    middle = values.median()
    distance = (values - middle).abs()
    spread, robust = distance.square().mean().sqrt(), 1.4826 * distance.median()
    least = 1e-9 * values.abs().max()
    if least < robust < FAR_OFF * spread:
        spread = robust
    return middle, spread if spread > least else torch.maximum(values.abs().max(), values.new_tensor(1e-30))


def grain(copies: Tensor) -> float:
    """The step of the grid that values lie on, such as one for whole numbers; zero if there is none."""
    values = copies[~torch.isnan(copies)]
    different: Tensor = torch.unique(values)
    if len(different) < FEW_VALUES or len(different) > MOST_DIFFERENT * len(values):
        return 0.0
    return float(different.diff().median())


def ends(places: Tensor) -> Tensor:
    """Steps of the density of outliers: all places, but for those far off, and some room."""
    if not len(places):
        return torch.tensor([-1.0, 1.0], dtype=torch.float64)
    middle, spread = _middle_and_spread(places)
    low = torch.maximum(places.min(), middle - REACH * spread)
    high = torch.minimum(places.max(), middle + REACH * spread)
    return torch.stack([low - 0.25 * spread - 1e-3, high + 0.25 * spread + 1e-3])
