r"""Scores of footprints by the compiled kernels, as operators that torch can differentiate, compile and export."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ahop._core.kernels.native import compiled, fits, threads_for
from ahop._core.kernels.packing import Packed, packed, stored
from ahop._core.kernels.plain import NUMBERS, footprint_scores_plain
from ahop._core.typing import Scores


def serves(patterns: Tensor, queries: Tensor) -> bool:
    """True if there is a kernel for this data on this machine. Graphs for ONNX run elsewhere, without it."""
    if torch.compiler.is_compiling() and torch.onnx.is_in_onnx_export():
        return False
    return fits(patterns, queries) and patterns.device.type == "cpu" and compiled() is not None


def footprint_scores(bases: Sequence[str], weights: Tensor, patterns: Tensor, queries: Tensor) -> Scores:
    """Scores (b, n) of patterns (n, d); or (g, b, n) of g groups of patterns, each with queries of its own.

    Args:
        bases: names of base similarities, k of them.
        weights: (k, d) what each rank of each base counts.
        patterns: (n, d), or (g, n, d).
        queries: (k, b, d), or (g, k, b, d), as each of them sees the queries.
    """
    scores: Scores = _OPERATORS.footprint_scores(patterns, queries, weights, [NUMBERS[name] for name in bases])
    return scores


# Defined by their signatures: the decorator that reads them off functions loads the whole compiler at the first call.
_LIBRARY = torch.library.Library("ahop", "DEF")  # type: ignore[no-untyped-call]
_ARGUMENTS = "Tensor patterns, Tensor queries, Tensor weights, int[] bases"
_LIBRARY.define(f"footprint_scores({_ARGUMENTS}) -> Tensor")  # type: ignore[no-untyped-call]
_LIBRARY.define(f"footprint_weight_gradient({_ARGUMENTS}, Tensor gradient) -> Tensor")  # type: ignore[no-untyped-call]
_LIBRARY.define(f"footprint_data_gradient({_ARGUMENTS}, Tensor gradient) -> (Tensor, Tensor)")  # type: ignore[no-untyped-call]
_OPERATORS = torch.ops.ahop


@torch.library.impl(_LIBRARY, "footprint_scores", "CPU")
def _scores(patterns: Tensor, queries: Tensor, weights: Tensor, bases: Sequence[int]) -> Tensor:
    out = _scores_shape(patterns, queries, weights, bases)
    blocks = packed(patterns) if patterns.ndim == 2 else None
    _call("scores", patterns, queries, weights, bases, blocks, _grouped(out, 3))
    return out


@torch.library.impl(_LIBRARY, "footprint_weight_gradient", "CPU")
def _weight_gradient(
    patterns: Tensor, queries: Tensor, weights: Tensor, bases: Sequence[int], gradient: Tensor
) -> Tensor:
    out = torch.empty_like(weights, memory_format=torch.contiguous_format)
    _call("weight_gradient", patterns, queries, weights, bases, None, _grouped(gradient.contiguous(), 3), out)
    return out


@torch.library.impl(_LIBRARY, "footprint_data_gradient", "CPU")
def _data_gradient(
    patterns: Tensor, queries: Tensor, weights: Tensor, bases: Sequence[int], gradient: Tensor
) -> tuple[Tensor, Tensor]:
    out = tuple(torch.empty_like(each, memory_format=torch.contiguous_format) for each in (patterns, queries))
    tensors = zip((gradient.contiguous(), *out), (3, 3, 4), strict=True)
    _call("data_gradient", patterns, queries, weights, bases, None, *(_grouped(each, axes) for each, axes in tensors))
    return out[0], out[1]


def _scores_shape(patterns: Tensor, queries: Tensor, weights: Tensor, bases: Sequence[int]) -> Tensor:
    return patterns.new_empty(*patterns.shape[:-2], queries.shape[-2], patterns.shape[-2])


def _weight_gradient_shape(
    patterns: Tensor, queries: Tensor, weights: Tensor, bases: Sequence[int], gradient: Tensor
) -> Tensor:
    return torch.empty_like(weights, memory_format=torch.contiguous_format)


def _data_gradient_shape(
    patterns: Tensor, queries: Tensor, weights: Tensor, bases: Sequence[int], gradient: Tensor
) -> tuple[Tensor, Tensor]:
    patterns, queries = (torch.empty_like(each, memory_format=torch.contiguous_format) for each in (patterns, queries))
    return patterns, queries


def _remember(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    *tensors, ctx.bases = inputs
    ctx.save_for_backward(*tensors)


def _backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
    patterns, queries, weights = tensors = ctx.saved_tensors
    to_patterns = to_queries = to_weights = None
    if torch.is_grad_enabled() and not torch.compiler.is_compiling():  # a gradient of the gradient is asked for
        return *_plain_gradients(tensors, ctx.bases, gradient), None
    if ctx.needs_input_grad[0] or ctx.needs_input_grad[1]:
        to_patterns, to_queries = _OPERATORS.footprint_data_gradient(patterns, queries, weights, ctx.bases, gradient)
    if ctx.needs_input_grad[2]:
        to_weights = _OPERATORS.footprint_weight_gradient(patterns, queries, weights, ctx.bases, gradient)
    return to_patterns, to_queries, to_weights, None


torch.library.register_fake("ahop::footprint_scores", _scores_shape, lib=_LIBRARY)
torch.library.register_fake("ahop::footprint_weight_gradient", _weight_gradient_shape, lib=_LIBRARY)
torch.library.register_fake("ahop::footprint_data_gradient", _data_gradient_shape, lib=_LIBRARY)
torch.library.register_autograd("ahop::footprint_scores", _backward, setup_context=_remember, lib=_LIBRARY)


def _plain_gradients(
    tensors: tuple[Tensor, Tensor, Tensor], bases: Sequence[int], gradient: Tensor
) -> list[Tensor | None]:
    wanted = [each for each in tensors if each.requires_grad]
    found = iter(
        torch.autograd.grad(footprint_scores_plain(*tensors, bases), wanted, gradient, create_graph=True)
        if wanted
        else ()
    )
    return [next(found) if each.requires_grad else None for each in tensors]


def _call(
    name: str,
    patterns: Tensor,
    queries: Tensor,
    weights: Tensor,
    bases: Sequence[int],
    blocks: Packed | None,
    *others: Tensor,
) -> None:
    module = compiled()
    assert module is not None
    rows, *kept = stored(patterns, blocks)
    asked, ranks = (each.detach().contiguous() for each in (queries, weights))
    threads = threads_for(patterns.shape[-2] * queries.numel())
    getattr(module, name)(
        *(_grouped(rows, 3), *kept, _grouped(asked, 4), ranks, list(bases)),
        *(each.detach() for each in others),
        threads,
    )


def _grouped(tensor: Tensor, axes: int) -> Tensor:
    """Add an axis of groups in front, of one where there is none."""
    return tensor if tensor.ndim == axes else tensor.unsqueeze(0)
