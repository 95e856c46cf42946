"""Base class of dynamics."""

from abc import ABC, abstractmethod

from torch import Tensor

from ahop._core.typing import Queries
from ahop.memory.memory import AssociativeMemory


class Dynamics(ABC):
    """A rule that moves states, and reads the answer from where they rest."""

    @abstractmethod
    def step(self, memory: AssociativeMemory, states: Queries) -> Queries:
        """One update of every state, each on its own: no state may depend on its neighbors in the batch."""

    def answer(self, memory: AssociativeMemory, states: Queries) -> Queries:
        """Read the answer off resting states: the states themselves, unless the rule rests elsewhere."""
        return states

    def descends(self, memory: AssociativeMemory) -> bool:
        """Is it proven that a step never raises the memory's energy? False means not proven, not that it rises."""
        return False


def known_kept(states: Tensor, queries: Tensor, known: Tensor | None) -> Tensor:
    """The states with the coordinates that are known put back."""
    return states if known is None else queries.where(known, states)
