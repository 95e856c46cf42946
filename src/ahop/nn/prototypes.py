"""A learned table of patterns."""

from typing import final

import torch
from torch import Tensor, nn

from ahop._core.checks import check_count
from ahop._core.inputs import as_patterns
from ahop._core.typing import Array
from ahop.nn.base import Layer


@final
class Prototypes(Layer):
    """Patterns (count, size), learned unless `trainable` says no. They start at random, or as given by `of`."""

    patterns: Tensor

    def __init__(self, count: int, size: int, trainable: bool = True) -> None:
        super().__init__()
        self.count, self.size, self.trainable = check_count("count", count), check_count("size", size), trainable
        self.patterns = nn.Parameter(torch.empty(count, size), requires_grad=trainable)
        self.reset_parameters()

    @classmethod
    def of(cls, patterns: Array, trainable: bool = True) -> "Prototypes":
        """A table that starts as these patterns, of which it keeps a copy."""
        given = as_patterns(patterns)
        made = cls(given.shape[0], given.shape[1], trainable)
        made.patterns = nn.Parameter(given.detach().clone(), requires_grad=trainable)
        return made

    def reset_parameters(self) -> None:
        nn.init.normal_(self.patterns)

    def configuration(self) -> dict[str, object]:
        return {"count": self.count, "size": self.size, "trainable": self.trainable}

    def forward(self) -> Tensor:
        return self.patterns
