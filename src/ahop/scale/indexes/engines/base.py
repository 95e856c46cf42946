"""Base class of engines."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Found:
    """The best of very many, best first.

    Attributes:
        indices: (b, k) rows; -1 where there are no more.
        scores: (b, k) inner products, exact or as the engine sees them; minus infinity there.
        log_mass: (b,) logarithm of the sum of `exp(beta * s)` over all rows, if all were seen and it was asked for.
    """

    indices: Tensor
    scores: Tensor
    log_mass: Tensor | None = None


def stacked(parts: Sequence[Found]) -> Found:
    """Stack the results for blocks of queries, one below the other."""
    masses = [part.log_mass for part in parts if part.log_mass is not None]
    return Found(
        torch.cat([part.indices for part in parts]),
        torch.cat([part.scores for part in parts]),
        torch.cat(masses) if masses else None,
    )


class Engine(ABC):
    """Vectors in rows, and the rows whose inner product with a query is largest. Rows keep their numbers."""

    # Whether each search looks at every row as it is, so that nothing needs to be calibrated.
    is_exhaustive: bool = False

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def search(self, queries: Tensor, k: int, allowed: Tensor | None = None, beta: float | None = None) -> Found:
        """The k best rows of each query.

        Args:
            allowed: (n,) which rows may be answered; all if None.
            beta: also return the mass of all rows at this inverse temperature, if the engine sees all rows.
        """

    @abstractmethod
    def add(self, vectors: Tensor) -> None:
        """Store more rows behind the others."""

    @abstractmethod
    def settings(self) -> dict[str, object]:
        """Settings in plain words and numbers, for files and reports."""

    @abstractmethod
    def tensors(self) -> dict[str, Tensor]:
        """Tensors of the engine, for files."""
