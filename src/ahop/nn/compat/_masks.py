"""Masks of hopfield-layers, where True means "ignore", as ours, where it means "takes part"."""

import warnings

import torch
from torch import Tensor

from ahop.errors import InvalidTypeError, ShapeError


def present_of(padding: Tensor | None, batch: int, count: int) -> Tensor | None:
    """(batch, 1, 1, patterns) from (batch, patterns)."""
    if padding is None:
        return None
    ignored = _as_bool("stored_pattern_padding_mask", padding)
    if ignored.dtype != torch.bool:
        raise InvalidTypeError(
            f"`stored_pattern_padding_mask` must be boolean, True for what to ignore; got dtype {padding.dtype}."
        )
    if padding.numel() != batch * count or padding.shape[-1] != count:
        raise ShapeError(
            f"`stored_pattern_padding_mask` must have shape ({batch}, {count}); got shape {tuple(padding.shape)}."
        )
    return ~ignored.view(batch, 1, 1, count)


def pairs_of(mask: Tensor | None, shape: tuple[int, int, int, int]) -> tuple[Tensor | None, Tensor | None]:
    """Flags of allowed pairs, and a bias of the scores: both broadcast over (batch, heads, queries, patterns)."""
    if mask is None:
        return None, None
    batch, heads, queries, patterns = shape
    given = _as_bool("association_mask", mask)
    if given.shape == (queries, patterns):
        given = given.view(1, 1, queries, patterns)
    elif given.shape == (batch * heads, queries, patterns):
        given = given.view(shape)
    else:
        raise ShapeError(
            f"`association_mask` must have shape ({queries}, {patterns}) or ({batch * heads}, {queries}, {patterns}); "
            f"got shape {tuple(mask.shape)}."
        )
    if given.dtype == torch.bool:
        return ~given, None
    if not given.dtype.is_floating_point:
        raise InvalidTypeError(f"`association_mask` must be boolean or hold numbers to add; got dtype {mask.dtype}.")
    return None, given


def _as_bool(name: str, mask: Tensor) -> Tensor:
    if mask.dtype != torch.uint8:
        return mask
    warnings.warn(f"`{name}` of dtype uint8 is deprecated; pass `mask.bool()`.", DeprecationWarning, stacklevel=6)
    return mask.bool()
