"""Spectra of different instruments, on one grid."""

from typing import Any, overload

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ahop._core.checks import check_count
from ahop._core.inputs import as_matrix, same_kind
from ahop._core.rows import as_numbers
from ahop._core.typing import Array, Entries, NotTensor, RowsLike
from ahop.errors import InvalidValueError, ShapeError


@overload
def resample(rows: Tensor, grid: Entries, onto: Entries) -> Tensor: ...
@overload
def resample(rows: NotTensor, grid: Entries, onto: Entries) -> NDArray[Any]: ...
def resample(rows: RowsLike, grid: Entries, onto: Entries) -> Array:
    r"""$(1 - t)\,x_i + t\,x_{i+1}$ between neighbors of the grid: rows (b, m) at the points `onto`, (b, p).

    NaN outside the grid, and between neighbors of which one was not observed.

    Args:
        grid: (m,) where the columns of the rows were measured, such as wavelengths; rising or falling.
        onto: (p,) where they are wanted, in any order.
    """
    values = as_matrix("rows", rows)
    at, wanted = _grid("grid", grid), torch.as_tensor(as_numbers("onto", onto)).double()
    if wanted.ndim != 1 or bool(wanted.isnan().any()):
        raise ShapeError(f"`onto` must be points, (p,), none of them NaN; got shape {tuple(wanted.shape)}.")
    if len(at) != values.shape[1]:
        raise ShapeError(f"`grid` must have a point for each of the {values.shape[1]} columns; got {len(at)}.")
    if float(at[0]) > float(at[-1]):
        at, values = at.flip(0), values.flip(-1)
    left = (torch.searchsorted(at, wanted, right=True) - 1).clamp(0, max(0, len(at) - 2))
    right = (left + 1).clamp_max(len(at) - 1)
    width = at[right] - at[left]
    share = ((wanted - at[left]) / width.where(width > 0, 1.0)).to(values)
    left, right = left.to(values.device), right.to(values.device)
    between = values[:, left] + share * (values[:, right] - values[:, left])
    # At a point of the grid its neighbor has no say, and may be a gap.
    found = between.where(share != 0, values[:, left]).where(share != 1, values[:, right])
    inside = ((wanted >= at[0]) & (wanted <= at[-1])).to(values.device)
    return same_kind(found.where(inside, torch.nan), rows)


@overload
def common_grid(*grids: Tensor, channels: int) -> Tensor: ...
@overload
def common_grid(*grids: NotTensor, channels: int) -> NDArray[Any]: ...
def common_grid(*grids: RowsLike, channels: int) -> Array:
    """So many points (p,), equally far from each other, over the range that all grids cover.

    Rows of each grid are brought there by `resample`.
    """
    if not grids:
        raise InvalidValueError("`common_grid` needs at least one grid; got none.")
    ends = [(float(at.min()), float(at.max())) for at in (_grid("grids", each) for each in grids)]
    first, last = max(low for low, _ in ends), min(high for _, high in ends)
    if not first < last:
        raise InvalidValueError(
            f"`grids` must overlap; the last begins at {first} and the first ends at {last}. Leave one of them out."
        )
    if check_count("channels", channels) < 2:
        raise InvalidValueError("`channels` must be at least 2, the ends of the range; got 1.")
    return same_kind(torch.from_numpy(np.linspace(first, last, channels)), grids[0])


def _grid(name: str, points: Entries | RowsLike) -> Tensor:
    grid = torch.as_tensor(as_numbers(name, points)).double()
    steps = grid.diff() if grid.ndim == 1 else grid
    if (
        grid.ndim != 1
        or not len(grid)
        or not (bool((steps > 0).all()) or bool((steps < 0).all()))
        or grid.isnan().any()
    ):
        raise InvalidValueError(
            f"`{name}` must be points in one axis that only rise or only fall; got shape {tuple(grid.shape)}. Sort "
            "them together with the columns, and drop what is there twice."
        )
    return grid
