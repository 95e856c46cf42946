"""Masks and priors of associations. True means "takes part"."""

import torch
from torch import Tensor

from ahop.errors import InvalidTypeError, ShapeError


def mask_of(present: Tensor | None, allowed: Tensor | None) -> Tensor | None:
    """Both as one mask that broadcasts over (batch, heads, queries, patterns).

    Args:
        present: (patterns,) or (batch, patterns), which stored patterns are there at all.
        allowed: (queries, patterns), (batch, queries, patterns) or with the heads behind the batch: who may see whom.
    """
    parts = []
    if present is not None:
        _check("present", present, (1, 2), "(n,) or (batch, n)")
        parts.append(present.view(-1, 1, 1, present.shape[-1]))
    if allowed is not None:
        _check("allowed", allowed, (2, 3, 4), "(b, n), (batch, b, n) or (batch, heads, b, n)")
        parts.append(with_heads(allowed))
    if len(parts) < 2:
        return parts[0] if parts else None
    return parts[0] & parts[1]


def with_heads(pairs: Tensor) -> Tensor:
    """(b, n) or (batch, b, n) with the axes that are missing before (batch, heads, b, n)."""
    if pairs.ndim == 4:
        return pairs
    return pairs.unsqueeze(-3) if pairs.ndim == 3 else pairs.view(1, 1, *pairs.shape)


def without_never(mask: Tensor | None, log_prior: Tensor | None) -> tuple[Tensor | None, Tensor | None]:
    """Minus infinity in a prior means never, which is the mask's to say: it would spoil the arithmetic."""
    if log_prior is None:
        return mask, None
    possible = log_prior > -torch.inf
    return possible if mask is None else mask & possible, log_prior.masked_fill(~possible, 0)


def _check(name: str, mask: Tensor, axes: tuple[int, ...], shapes: str) -> None:
    if mask.dtype != torch.bool:
        raise InvalidTypeError(
            f"`{name}` must be boolean, True where something takes part; got dtype {mask.dtype}. "
            "To add numbers to the scores pass `log_prior`."
        )
    if mask.ndim not in axes:
        raise ShapeError(f"`{name}` must have shape {shapes}; got shape {tuple(mask.shape)}.")
