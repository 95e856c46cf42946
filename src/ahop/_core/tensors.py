"""Numeric helpers: columns in use, saturation, exponentials, large values, unit lengths, distinct values, axes."""

from collections.abc import Sequence
from math import isfinite

import numpy as np
import torch
from torch import Tensor

# The exponential of less is lost beside one, in every dtype; and subnormal numbers take processors ten times as long.
LEAST_EXPONENT = -80.0
# Columns are worth picking out if they are so few of all, and what is picked has at most so many entries.
FEW, MOST_PICKED = 0.25, 1 << 25


def few_columns(is_used: Tensor, count: int) -> Tensor | None:
    """The columns of `count` patterns that some query uses, if they are few; None where reading all is as well."""
    if torch.compiler.is_compiling() or torch.is_grad_enabled():
        return None
    columns = is_used.flatten(0, -2).any(0).nonzero().squeeze(-1)
    is_few = len(columns) <= FEW * is_used.shape[-1] and len(columns) * count <= MOST_PICKED
    return columns if is_few else None


def saturate(values: Tensor, dtype: torch.dtype | None = None) -> Tensor:
    """The values in `dtype`, with what would overflow held at the largest finite number; NaN stays."""
    dtype = dtype or values.dtype
    largest = min(torch.finfo(dtype).max, torch.finfo(values.dtype).max)
    return values.clamp(-largest, largest).to(dtype)


def exponentials_(values: Tensor, least: float = LEAST_EXPONENT) -> Tensor:
    """In place, of numbers up to zero, one of them zero in each sum that they go into: what is lost there is cut."""
    return values.clamp_min_(least).exp_()


def places_above(values: Tensor, least: Tensor) -> tuple[Tensor, Tensor]:
    """Rows and columns of the values (b, m) above the least (b, 1), row by row. numpy is ten times as fast as torch."""
    values, least = values.detach(), least.detach()
    if values.device.type == "cpu" and values.dtype in (torch.float32, torch.float64):
        place = torch.from_numpy(np.flatnonzero(values.numpy() > least.numpy()))
    else:
        place = (values > least).flatten().nonzero().squeeze(-1)
    return place // values.shape[-1], place % values.shape[-1]


def best_first(values: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The k largest values of each row (b, m), largest first, and their columns; of equals the first column first.

    `topk` takes any of several equals, another one for each number of columns.
    """
    if k == 1:  # the first of several equals
        found = values.max(-1, keepdim=True)
        return found.values, found.indices
    best, columns = values.topk(min(k + 1, values.shape[-1]), dim=-1)
    is_cut = (best[:, -1] == best[:, -2]) if best.shape[1] > k else torch.zeros_like(best[:, 0], dtype=torch.bool)
    columns = columns[:, :k]
    if bool(is_cut.any()):  # an equal of the last is left out
        columns[is_cut] = values[is_cut].sort(dim=-1, descending=True, stable=True).indices[:, :k]
    columns = columns.sort(dim=-1).values
    ordered = values.gather(-1, columns).sort(dim=-1, descending=True, stable=True)
    return ordered.values, columns.gather(-1, ordered.indices)


def lowest(dtype: torch.dtype) -> float:
    """The lowest finite number: the score of a pair that nothing is known about."""
    return torch.finfo(dtype).min


def all_finite(values: Tensor) -> bool:
    """A finite sum is proof and as fast as memory; only a sum that is not needs a second look."""
    return isfinite(float(values.detach().sum())) or bool(values.isfinite().all())


def centered(patterns: Tensor) -> tuple[Tensor, Tensor]:
    """The center of complete patterns (1, d), and these about it (n, d): a common offset would cost scores digits."""
    center = patterns.detach().mean(-2, keepdim=True)
    return center, patterns - center


def of_largest_one(rows: Tensor) -> Tensor:
    """The rows with their largest entry at one, so that no square of them overflows; zeros stay."""
    largest = rows.detach().abs().amax(-1, keepdim=True)
    return rows / largest.where(largest > 0, 1)


def of_unit_length(rows: Tensor) -> Tensor:
    """The rows with length one; zeros stay."""
    scaled = of_largest_one(rows)
    squares = scaled.square().sum(-1, keepdim=True)
    return scaled * squares.where(squares > 0, 1).rsqrt()


def distinct(values: Tensor) -> tuple[Tensor, Tensor]:
    """The different values in rising order, and where in them each value stands."""
    found, places = torch.unique(values, return_inverse=True)
    return found, places


def block_diagonal(parts: Sequence[Tensor]) -> Tensor:
    """The matrices along the diagonal of one larger matrix."""
    joined: Tensor = torch.block_diag(*parts)  # type: ignore[no-untyped-call]
    return joined


def principal_directions(rows: Tensor, rank: int) -> Tensor:
    """The first right singular vectors times their singular values, (d, rank)."""
    if rank == 0:
        return rows.new_zeros(rows.shape[1], 0)
    size = min(rank + 16, *rows.shape)
    generator = torch.Generator().manual_seed(0)
    basis = torch.randn(rows.shape[1], size, generator=generator, dtype=torch.float64).to(rows)
    for _ in range(8):
        basis = torch.linalg.qr(rows.mT @ (rows @ basis)).Q
    _, values, vectors = torch.linalg.svd(rows @ basis, full_matrices=False)
    directions: Tensor = (basis @ vectors[:rank].mT) * values[:rank]
    return directions
