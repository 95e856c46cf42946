"""Base class of separations."""

from abc import ABC, abstractmethod
from typing import Any

import torch
from torch import Tensor

from ahop._core.component import Component
from ahop._core.typing import PerQuery, Scores, Weights
from ahop.errors import UnsupportedError


class Separation(Component, ABC):
    r"""$p = \mathrm{sep}(s) = \nabla \Psi^*(s)$: scores to weights, and the potential they are the gradient of.

    Attributes:
        is_distribution: the weights of a query are not negative and sum to one.
        is_convex: the potential is convex, which is what the descent theorems ask.
    """

    is_distribution: bool = True
    is_convex: bool = True
    # How much scores are sharpened; one where a separation has no such number.
    beta: float = 1.0

    @abstractmethod
    def forward(self, scores: Scores) -> Weights: ...

    @abstractmethod
    def potential(self, scores: Scores) -> PerQuery:
        r"""$\Psi^*(s)$, a scalar for each query."""

    def curvature(self, weights: Weights) -> Weights:
        r"""$h$ such that $\nabla^2 \Psi^* = \mathrm{diag}(h) - h h^\top / \sum h$, from the weights."""
        raise UnsupportedError(f"{self!r} has no curvature of this form; fit with `Softmax`, then swap the separation.")

    def __call__(self, scores: Scores) -> Weights:
        weights: Weights = super().__call__(scores)
        return weights


def with_gradient(value: Tensor, scores: Scores, weights: Weights) -> PerQuery:
    """`value` with `weights` for its gradient in the scores, by the envelope theorem.

    Differentiating through the weights instead would be wrong where one of them has just reached zero.
    """
    result: PerQuery = _Envelope.apply(scores, weights, value)  # type: ignore[no-untyped-call]
    return result


class _Envelope(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, scores: Tensor, weights: Tensor, value: Tensor) -> Tensor:
        ctx.save_for_backward(weights)
        return value.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, Tensor]:
        (weights,) = ctx.saved_tensors
        (gradient,) = gradients
        return gradient.unsqueeze(-1) * weights, None, gradient
