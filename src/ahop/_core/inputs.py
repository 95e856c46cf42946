"""Patterns, queries and origins of users as tensors."""

from collections.abc import Mapping, Sequence
from typing import Any, overload

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ahop._core.frames import is_column, is_frame, names_of, numbers_of, numbers_of_column
from ahop._core.tensors import saturate
from ahop._core.typing import Array, Entries, NotTensor, Origins, Patterns, PerPattern, Queries, RowsLike
from ahop.errors import InvalidTypeError, InvalidValueError, ShapeError

# Arguments that are rows of numbers, with NaN for what was not observed.
ROWS_OF_NUMBERS = ("patterns", "queries", "copies", "values", "right")


def as_patterns(patterns: RowsLike, name: str = "patterns") -> Patterns:
    """A float tensor of shape (n, d), n and d at least 1; NaN where nothing was observed, and no infinity."""
    tensor = as_matrix(name, patterns)
    if 0 in tensor.shape:
        raise ShapeError(
            f"`{name}` must hold at least one pattern of at least one dimension; got shape {_shape(tensor)}."
        )
    return tensor


def as_queries(
    queries: RowsLike, like: Patterns, name: str = "queries", dimensions: Sequence[str] | None = None
) -> Queries:
    """The same of shape (b, d), on the device and in the dtype of the stored patterns; b may be 0.

    The columns of a frame are put into the order of `dimensions`, the names that the stored patterns have for them.
    """
    if dimensions is None and names_of(queries, name) is not None:
        raise InvalidTypeError(
            f"`{name}` has names for its columns, and there are none here to put them in order by. Store a frame with "
            f"such names, or pass `{name}.to_numpy()` if the order is that of the stored patterns."
        )
    tensor = as_matrix(name, queries, dimensions)
    wanted = like.shape[-1]
    if tensor.shape[-1] != wanted:
        raise ShapeError(
            f"`{name}` must have shape (b, {wanted}), as the stored patterns have d={wanted}; "
            f"got shape {_shape(tensor)}."
        )
    return saturate(tensor, like.dtype).to(like.device)


def as_query(query: Any, like: Patterns, dimensions: Sequence[str] | None = None) -> Queries:
    """One query as a matrix (1, d): a row of its own, a matrix or frame of one row, or a row of a frame."""
    if hasattr(query, "to_frame"):
        query = query.to_frame().T
    elif not is_frame(query):
        rows = query if isinstance(query, Tensor) else np.asarray(query, dtype=np.float64)
        query = rows[None] if rows.ndim == 1 else rows
    checked = as_queries(query, like, "query", dimensions)
    if len(checked) != 1:
        raise ShapeError(f"`query` must be one row; got {len(checked)}. Explain one query at a time.")
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
    if not tensor.numel():
        return tensor.long()
    if tensor.dtype.is_floating_point or tensor.dtype == torch.bool:
        raise InvalidTypeError(
            f"`{name}` must be whole numbers, the rows of the stored patterns; got dtype {tensor.dtype}. "
            "To look rows up, take the `nonzero` of a mask: of labels that agree, or of what is to go."
        )
    tensor = tensor.long()
    if int(tensor.min()) < 0 or int(tensor.max()) >= patterns:
        raise InvalidValueError(
            f"`{name}` must lie in 0..{patterns - 1}, as {patterns} patterns are stored; "
            f"got {int(tensor.min())}..{int(tensor.max())}."
        )
    return tensor


def flags_of(name: str, rows: Entries, patterns: int) -> Tensor:
    """Flags (n,) of rows that are given as flags or by their numbers."""
    if isinstance(rows, Mapping):
        raise InvalidTypeError(
            f"`{name}` must be rows, as flags or numbers: there are no columns. Give an index or a store `metadata`."
        )
    flags = _as_tensor(name, rows).cpu()
    if flags.dtype == torch.bool:
        if tuple(flags.shape) != (patterns,):
            raise ShapeError(f"`{name}` must have shape ({patterns},), a flag for each row; got {tuple(flags.shape)}.")
        return flags
    return torch.zeros(patterns, dtype=torch.bool).index_fill_(0, as_rows(name, flags, patterns).flatten(), True)


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


def as_matrix(name: str, value: RowsLike, dimensions: Sequence[str] | None = None) -> Tensor:
    """Rows of any kind as a float tensor with two axes; NaN where nothing was observed, and no infinity."""
    if is_frame(value):
        value = numbers_of(value, name, dimensions)
    elif isinstance(value, list | tuple):
        value = _from_lists(name, value)
    if not isinstance(value, (Tensor, np.ndarray)):
        raise InvalidTypeError(
            f"`{name}` must be a numpy array, a torch tensor, a frame or a list of lists; got {type(value).__name__}. "
            f"Pass `numpy.asarray({name}, dtype='float32')`."
        )
    tensor = _as_tensor(name, value)
    if tensor.dtype not in (torch.float32, torch.float64):
        tensor = tensor.to(torch.get_default_dtype())
    if tensor.ndim != 2:
        single = f"{name.removesuffix('ies')}y" if name.endswith("ies") else name.removesuffix("s")
        mend = f" For a single {single} pass `{single}[None]`." if tensor.ndim == 1 else ""
        raise ShapeError(f"`{name}` must have two axes, one row each; got shape {_shape(tensor)}.{mend}")
    if bool(torch.isinf(tensor).any()):
        raise InvalidValueError(
            f"`{name}` must be finite; got infinity. Put NaN where nothing was observed, or drop those rows."
        )
    return tensor


def _from_lists(name: str, rows: Sequence[Any]) -> NDArray[Any]:
    """Lists of numbers; None where nothing was observed."""
    try:
        found = np.asarray(rows)
        has_words = found.dtype == object and any(isinstance(each, str | bytes) for each in found.flat)
        return found.astype(np.float64) if found.dtype == object and not has_words else found
    except (TypeError, ValueError) as error:
        raise ShapeError(f"`{name}` must be rows of numbers, all of one length; got a list that is not.") from error


def _as_tensor(name: str, value: Array | Entries) -> Tensor:
    """The same numbers in torch, and the same memory where torch can share it: not if it is read-only or reversed."""
    given = value if isinstance(value, Tensor) else np.asarray(_unmasked(name, value))
    if given.dtype.is_complex if isinstance(given, Tensor) else given.dtype.kind not in "fiub":
        raise InvalidTypeError(f"`{name}` must hold real numbers; got dtype {given.dtype}.")
    if isinstance(given, Tensor):
        return given
    native = np.float64 if given.dtype == np.longdouble else given.dtype.newbyteorder("=")
    return torch.as_tensor(np.require(given, native, ["C", "W"]))


def _unmasked(name: str, value: Any) -> Any:
    """Masked entries were not observed: NaN, where numbers can be."""
    if not isinstance(value, np.ma.MaskedArray):
        return value
    if not np.ma.is_masked(value):
        return value.data
    if value.dtype.kind not in "fiub" or name not in ROWS_OF_NUMBERS:
        raise InvalidTypeError(f"`{name}` must have no masked entries. Leave those rows out.")
    numbers = value.data if value.dtype.kind == "f" else value.data.astype(np.float64)
    return np.where(np.ma.getmaskarray(value), np.nan, numbers)


def as_numbers(name: str, values: Any) -> NDArray[Any]:
    """Numbers (n,) or (n, c) for the stored patterns, NaN where they are not known; single precision stays so."""
    if is_frame(values):
        found = numbers_of(values, name)
    elif is_column(values):
        found = numbers_of_column(values, name)
    elif isinstance(values, Tensor | np.ndarray):
        found = _as_tensor(name, values).detach().cpu().numpy()
    else:
        found = _from_lists(name, list(values))
    if found.dtype.kind not in "fiub":
        raise InvalidTypeError(f"`{name}` must hold numbers; got {found.dtype}.")
    if found.ndim not in (1, 2):
        raise ShapeError(f"`{name}` must have shape (n,) or (n, c), for n stored patterns; got {found.shape}.")
    if np.isinf(found).any():
        raise InvalidValueError(f"`{name}` must be finite; got infinity. Put NaN where it is not known.")
    return found if found.dtype == np.float32 else found.astype(np.float64)


def _shape(tensor: Tensor) -> str:
    return str(tuple(tensor.shape))
