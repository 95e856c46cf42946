"""Every sentence that tells a user what is wrong: name, demand, what came, mend."""

from collections.abc import Sequence
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from ahop._numbers import saturate
from ahop._typing import Array, Kind, Origins, Patterns, PerPattern, Queries
from ahop.errors import InvalidValueError, KindError, ShapeError

Name = TypeVar("Name", bound=str)
Part = TypeVar("Part")


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


def check_kind(name: str, value: Part, kind: type) -> Part:
    if not isinstance(value, kind):
        got = f"the class `{value.__name__}`. Call it" if isinstance(value, type) else type(value).__name__
        raise KindError(f"`{name}` must be of the kind {kind.__name__}; got {got}.")
    return value


def as_patterns(patterns: Array, name: str = "patterns") -> Patterns:
    """A float tensor of shape (n, d), n and d at least 1; NaN where nothing was observed, and no infinity."""
    tensor = _as_matrix(name, patterns)
    if 0 in tensor.shape:
        raise ShapeError(
            f"`{name}` must hold at least one pattern of at least one dimension; got shape {_shape(tensor)}."
        )
    return tensor


def as_queries(queries: Array, like: Patterns, name: str = "queries") -> Queries:
    """The same of shape (b, d), on the device and in the dtype of the stored patterns; b may be 0."""
    tensor = _as_matrix(name, queries)
    dimensions = like.shape[-1]
    if tensor.shape[-1] != dimensions:
        raise ShapeError(
            f"`{name}` must have shape (b, {dimensions}), as the stored patterns have d={dimensions}; "
            f"got shape {_shape(tensor)}."
        )
    return saturate(tensor, like.dtype).to(like.device)


def as_origins(origins: Array, count: int, patterns: int) -> Origins:
    """Row numbers of the stored patterns that `count` queries come from."""
    tensor = as_rows("origins", origins, patterns)
    if tuple(tensor.shape) != (count,):
        raise ShapeError(f"`origins` must have shape ({count},), one row for each query; got shape {_shape(tensor)}.")
    return tensor


def as_rows(name: str, rows: Array, patterns: int) -> Tensor:
    """Row numbers of stored patterns, whole numbers in range."""
    tensor = _as_tensor(name, rows)
    if not tensor.numel():
        return tensor.long()
    if tensor.dtype.is_floating_point or tensor.dtype == torch.bool:
        raise KindError(
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


def as_group_names(groups: Sequence[object], count: int) -> list[str]:
    """The name of each query's group, as words: numbers and strings alike."""
    if isinstance(groups, str) or not hasattr(groups, "__len__") or len(groups) != count:
        raise ShapeError(f"`groups` must be {count} names, one for each query; got {_said(groups)}.")
    return [str(name) for name in np.asarray(groups).tolist()]


def same_kind(result: Tensor, given: Kind) -> Kind:
    """Arrays in, arrays out: numpy answers numpy, torch answers torch."""
    return result if isinstance(given, Tensor) else result.detach().cpu().numpy()


def _as_matrix(name: str, value: Array) -> Tensor:
    if not isinstance(value, (Tensor, np.ndarray)):
        raise KindError(
            f"`{name}` must be a numpy array or a torch tensor; got {type(value).__name__}. "
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


def _as_tensor(name: str, value: Array) -> Tensor:
    """The same numbers in torch, and the same memory where torch can share it: not if it is read-only or reversed."""
    given = value if isinstance(value, Tensor) else np.asarray(value)
    if given.dtype.is_complex if isinstance(given, Tensor) else given.dtype.kind not in "fiub":
        raise KindError(f"`{name}` must hold real numbers; got dtype {given.dtype}.")
    if isinstance(given, Tensor):
        return given
    native = np.float64 if given.dtype == np.longdouble else given.dtype.newbyteorder("=")
    return torch.as_tensor(np.require(given, native, ["C", "W"]))


def _said(value: object) -> str:
    return f"{len(value)}" if hasattr(value, "__len__") and not isinstance(value, str) else repr(value)


def _shape(tensor: Tensor) -> str:
    return str(tuple(tensor.shape))
