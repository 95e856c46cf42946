"""Base class of modulations."""

from abc import ABC, abstractmethod

from ahop._core.component import Component
from ahop._core.typing import Patterns


class Modulation(Component, ABC):
    r"""$\mathrm{mod}(\xi)$: the pattern that the query is compared with. The answer is read from the pattern itself."""

    @abstractmethod
    def forward(self, patterns: Patterns) -> Patterns: ...

    def __call__(self, patterns: Patterns) -> Patterns:
        modulated: Patterns = super().__call__(patterns)
        return modulated
