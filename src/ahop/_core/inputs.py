"""Patterns, queries and origins of users as tensors."""

from collections.abc import Mapping, Sequence
from typing import Any, overload

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ahop._core.arrays import to_numpy
from ahop._core.rows import (
    as_matrix_of_one,
    as_real,
    check_axes,
    check_finite_rows,
    check_named,
    check_single,
    check_width,
    read_rows,
    row_flags,
    row_numbers,
)
from ahop._core.tensors import saturate
from ahop._core.typing import AnyQueries, Array, Entries, NotTensor, Origins, Patterns, PerPattern, RowsLike
from ahop.errors import InvalidTypeError, InvalidValueError, ShapeError


def as_patterns(patterns: RowsLike, name: str = "patterns", columns: Sequence[str] | None = None) -> Patterns:
    """A float tensor of shape (n, d), n and d at least 1; NaN where nothing was observed, and no infinity.

    Args:
        columns: those of a frame, with the words of its categories.
    """
    tensor = as_matrix(name, patterns, columns)
    if 0 in tensor.shape:
        raise ShapeError(
            f"`{name}` must hold at least one pattern of at least one dimension; got shape {_shape(tensor)}."
        )
    return tensor


def as_queries(
    queries: RowsLike,
    like: Patterns,
    name: str = "queries",
    columns: Sequence[str] | None = None,
    query_dimensions: int | None = None,
) -> AnyQueries:
    """Check queries of shape (b, d), on the device and in the dtype of the stored patterns; b may be 0.

    The columns of a frame are put into the order of `columns`, the names that the stored patterns have for them.

    Args:
        query_dimensions: how many columns queries have, where these are others than those of the patterns; they have no
            names.
    """
    known = columns if query_dimensions is None else None
    check_named(name, queries, known)
    tensor = as_matrix(name, queries, known)
    if query_dimensions is None:
        check_width(name, tensor.shape, like.shape[-1])
    else:
        check_width(name, tensor.shape, query_dimensions, "the copies that were learned from had")
    return saturate(tensor, like.dtype).to(like.device)


def as_query(
    query: Any, like: Patterns, columns: Sequence[str] | None = None, query_dimensions: int | None = None
) -> AnyQueries:
    """One query as a matrix (1, d): a row of its own, a matrix or frame of one row, or a row of a frame."""
    checked = as_queries(as_matrix_of_one(query), like, "query", columns, query_dimensions)
    check_single(len(checked))
    return checked


def as_origins(origins: Entries, count: int, patterns: int) -> Origins:
    """Row numbers of the stored patterns that `count` queries come from."""
    tensor = as_rows("origins", origins, patterns)
    if tuple(tensor.shape) != (count,):
        raise ShapeError(f"`origins` must have shape ({count},), one row for each query; got shape {_shape(tensor)}.")
    return tensor


def as_rows(name: str, rows: Entries, patterns: int) -> Tensor:
    """Row numbers of stored patterns, whole numbers in range."""
    tensor = _as_tensor(name, rows)
    return torch.from_numpy(row_numbers(name, to_numpy(tensor), patterns)).to(tensor.device)


def flags_of(name: str, rows: Entries, patterns: int) -> Tensor:
    """Flags (n,) of rows that are given as flags or by their numbers."""
    if isinstance(rows, Mapping):
        raise InvalidTypeError(
            f"`{name}` must be rows, as flags or numbers: there are no columns. Give an index or a store `metadata`."
        )
    return torch.from_numpy(row_flags(name, to_numpy(_as_tensor(name, rows)), patterns))


def as_log_prior(log_prior: Array, like: Patterns) -> PerPattern:
    """A number for each stored pattern; minus infinity where it is never the origin."""
    tensor = _as_tensor("log_prior", log_prior).to(like)
    if tuple(tensor.shape) != (len(like),):
        raise ShapeError(f"`log_prior` must have shape ({len(like)},), one for each pattern; got {_shape(tensor)}.")
    if not bool((tensor < torch.inf).all()) or not bool(torch.isfinite(tensor).any()):
        raise InvalidValueError(
            "`log_prior` must hold logarithms of probabilities, minus infinity for never; got NaN, plus infinity, or "
            "never for all. Pass `probabilities.log()`."
        )
    return tensor


@overload
def same_kind(result: Tensor, given: Tensor) -> Tensor: ...
@overload
def same_kind(result: Tensor, given: NotTensor) -> NDArray[Any]: ...
def same_kind(result: Tensor, given: RowsLike) -> Array:
    """Arrays in, arrays out: torch answers torch, numpy answers numpy and all others."""
    return result if isinstance(given, Tensor) else result.detach().cpu().numpy()


def as_matrix(name: str, value: RowsLike, columns: Sequence[str] | None = None) -> Tensor:
    """Rows of any kind as a float tensor with two axes; NaN where nothing was observed, and no infinity."""
    if isinstance(value, Tensor):
        tensor = _as_tensor(name, value)
    else:
        narrow = np.float64 if torch.get_default_dtype() == torch.float64 else np.float32
        tensor = torch.as_tensor(read_rows(name, value, columns, narrow))
    if tensor.dtype not in (torch.float32, torch.float64):
        tensor = tensor.to(torch.get_default_dtype())
    check_axes(name, tensor.shape)
    check_finite_rows(name, not bool(torch.isinf(tensor).any()))
    return tensor


def _as_tensor(name: str, value: Array | Entries) -> Tensor:
    """Convert to torch, sharing memory where torch can: not if it is read-only or reversed."""
    if not isinstance(value, Tensor):
        return torch.as_tensor(as_real(name, value))
    if value.dtype.is_complex:
        raise InvalidTypeError(f"`{name}` must hold real numbers; got dtype {value.dtype}.")
    return value


def _shape(tensor: Tensor) -> str:
    return str(tuple(tensor.shape))
