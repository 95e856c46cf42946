"""Every sentence that tells a user what is wrong: name, demand, what came, mend."""

from collections.abc import Sequence
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from ahop._typing import Array, Kind, Origins, Patterns, Queries
from ahop.errors import InvalidValueError, KindError, ShapeError

Name = TypeVar("Name", bound=str)


def check_positive(name: str, value: float) -> float:
    if not value > 0 or value == float("inf"):
        raise InvalidValueError(f"`{name}` must be positive and finite; got {value!r}.")
    return float(value)


def check_not_negative(name: str, value: float) -> float:
    if not value >= 0 or value == float("inf"):
        raise InvalidValueError(f"`{name}` must be zero or larger, and finite; got {value!r}.")
    return float(value)


def check_rate(name: str, value: float) -> float:
    if not 0 <= value <= 1:
        raise InvalidValueError(f"`{name}` is a share of the dimensions and must lie in [0, 1]; got {value!r}.")
    return float(value)


def check_count(name: str, value: int) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 1:
        raise InvalidValueError(f"`{name}` must be a whole number of at least 1; got {value!r}.")
    return int(value)


def check_choice(name: str, value: Name, choices: Sequence[Name]) -> Name:
    if value not in choices:
        raise InvalidValueError(f"`{name}` must be one of {', '.join(map(repr, choices))}; got {value!r}.")
    return value


def as_patterns(patterns: Array, name: str = "patterns") -> Patterns:
    """A finite float tensor of shape (n, d), n and d at least 1."""
    tensor = _as_matrix(name, patterns)
    if 0 in tensor.shape:
        raise ShapeError(
            f"`{name}` must hold at least one pattern of at least one dimension; got shape {_shape(tensor)}."
        )
    return tensor


def as_queries(queries: Array, like: Patterns, name: str = "queries") -> Queries:
    """A finite float tensor of shape (b, d) on the device and in the dtype of the stored patterns; b may be 0."""
    tensor = _as_matrix(name, queries, single=f"{name.removesuffix('ies')}y")
    dimensions = like.shape[-1]
    if tensor.shape[-1] != dimensions:
        raise ShapeError(
            f"`{name}` must have shape (b, {dimensions}), as the stored patterns have d={dimensions}; "
            f"got shape {_shape(tensor)}."
        )
    return tensor.to(like)


def as_origins(origins: Array, count: int, patterns: int) -> Origins:
    """Row numbers of the stored patterns that `count` queries come from."""
    tensor = torch.as_tensor(origins)
    if tensor.dtype.is_floating_point or tensor.dtype.is_complex or tensor.dtype == torch.bool:
        raise KindError(
            f"`origins` must be whole numbers, the rows of the stored patterns; got dtype {tensor.dtype}. "
            "To look rows up, compare your copies' labels with the labels of the patterns."
        )
    if tuple(tensor.shape) != (count,):
        raise ShapeError(f"`origins` must have shape ({count},), one row for each query; got shape {_shape(tensor)}.")
    if count and (int(tensor.min()) < 0 or int(tensor.max()) >= patterns):
        raise InvalidValueError(
            f"`origins` must lie in 0..{patterns - 1}, as {patterns} patterns are stored; "
            f"got {int(tensor.min())}..{int(tensor.max())}."
        )
    return tensor.long()


def same_kind(result: Tensor, given: Kind) -> Kind:
    """Arrays in, arrays out: numpy answers numpy, torch answers torch."""
    return result if isinstance(given, Tensor) else result.detach().cpu().numpy()


def _as_matrix(name: str, value: Array, single: str | None = None) -> Tensor:
    if not isinstance(value, (Tensor, np.ndarray)):
        raise KindError(
            f"`{name}` must be a numpy array or a torch tensor; got {type(value).__name__}. "
            f"Pass `numpy.asarray({name}, dtype='float32')`."
        )
    tensor = torch.as_tensor(value)
    if tensor.dtype.is_complex:
        raise KindError(f"`{name}` must be real; got dtype {tensor.dtype}.")
    if tensor.dtype not in (torch.float32, torch.float64):
        tensor = tensor.to(torch.get_default_dtype())
    if tensor.ndim != 2:
        mend = f" For a single {single} pass `{single}[None]`." if single and tensor.ndim == 1 else ""
        raise ShapeError(f"`{name}` must have two axes, one row each; got shape {_shape(tensor)}.{mend}")
    if not bool(torch.isfinite(tensor).all()):
        raise InvalidValueError(f"`{name}` must be finite; got NaN or infinity. Fill or drop those entries first.")
    return tensor


def _shape(tensor: Tensor) -> str:
    return str(tuple(tensor.shape))
