"""Number of update steps of a state."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from ahop._core.checks import check_choice, check_positive
from ahop.errors import InvalidValueError, UnsupportedError

# Where nobody sets a limit: far more than a state that comes to rest ever takes.
LIMIT = 10_000

OVERS: tuple[Literal["query", "sample"], ...] = ("query", "sample")


@dataclass(frozen=True)
class Convergence:
    r"""Weights $p \leftarrow \mathrm{sep}(\mathrm{sim}(\Xi, p\,\Xi))$, until they rest or a number of times.

    Each query, or each sample, is judged by its own change and stays as it is once that is small: no answer depends on
    the rest of the batch.

    Attributes:
        most: updates at most, or one such number for each head; None for as many as it takes.
        tolerance: rest means that the weights changed by no more than this, in Euclidean norm; one for all heads or one
            each. None to take all updates, which needs no look at the numbers.
        over: whose change it is: the weights of each query, or all weights of a sample and head together.
    """

    most: int | Sequence[int] | None = 0
    tolerance: float | Sequence[float] | None = None
    over: Literal["query", "sample"] = "query"

    def __post_init__(self) -> None:
        check_choice("over", self.over, OVERS)
        for count in self.most if isinstance(self.most, Sequence) else [self.most]:
            if count is not None and (isinstance(count, bool) or not isinstance(count, int) or count < 0):
                raise InvalidValueError(f"`updates` must be a whole number, or None for until rest; got {count!r}.")
        for number in self.tolerance if isinstance(self.tolerance, Sequence) else [self.tolerance]:
            if number is not None:
                check_positive("tolerance", number)
        if self.most is None and self.tolerance is None:
            raise InvalidValueError("`updates=None` means until rest, and needs a `tolerance` to know rest by.")

    @property
    def fixed(self) -> int | None:
        """Number of updates if it does not depend on the data; otherwise None."""
        return self.most if self.most == 0 or (self.tolerance is None and isinstance(self.most, int)) else None

    def __call__(
        self, states: Tensor, weights: Tensor, move: Callable[[Tensor], tuple[Tensor, Tensor]]
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The states and weights at the end, and how many updates each query took, (..., b)."""
        active = torch.ones_like(weights[..., :1] if self.over == "query" else weights[..., :1, :1], dtype=torch.bool)
        steps = torch.zeros_like(weights[..., :1], dtype=torch.long)
        for step in range(self._limit()):
            if isinstance(self.most, Sequence):
                active = active & (_per_head(self.most, weights) > step)
            if self.tolerance is not None and not torch.compiler.is_compiling() and not bool(active.any()):
                break
            moved, found = move(weights)
            if self.fixed is None:
                moved, found = torch.where(active, moved, states), torch.where(active, found, weights)
            steps = steps + active
            if self.tolerance is not None:
                active = active & self._moving(found.detach() - weights.detach())
            states, weights = moved, found
        return states, weights, steps.squeeze(-1)

    def _moving(self, change: Tensor) -> Tensor:
        norms = change.norm(dim=-1, keepdim=True)
        if self.over == "sample":
            norms = norms.norm(dim=-2, keepdim=True)
        tolerance = self.tolerance if isinstance(self.tolerance, Sequence) else [self.tolerance or 0.0]
        moving: Tensor = norms > _per_head(tolerance, norms)
        return moving

    def _limit(self) -> int:
        if self.most is None:
            if torch.compiler.is_compiling():
                raise UnsupportedError(
                    "`updates=None` looks at the numbers to know when to stop; compile with a number."
                )
            return LIMIT
        return max(self.most) if isinstance(self.most, Sequence) else self.most


def _per_head(values: Sequence[float] | Sequence[int], like: Tensor) -> Tensor:
    """Numbers that broadcast over (heads, rows, columns); a single number over anything."""
    numbers = torch.tensor(values, device=like.device)
    return numbers.view(()) if len(values) == 1 else numbers.view(-1, 1, 1)
