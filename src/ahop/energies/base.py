r"""The base of all energies: $E(x) = Q(x) - \Psi^*(s)$."""

from abc import ABC, abstractmethod

from ahop._core.component import Component
from ahop._core.typing import PerQuery, Queries, Scores
from ahop.modulations.base import Modulation
from ahop.separations.base import Separation


class Energy(Component, ABC):
    r"""$E(x) = Q(x) - \Psi^*(s)$ with $s = \mathrm{sim}(\mathrm{mod}(\Xi), x)$ and $\mathrm{sep} = \nabla \Psi^*$.

    Paper:
        Column $E(x)$ of Table 1, with the powers and exponentials inside the sum, where they belong.
    """

    @abstractmethod
    def confinement(self, queries: Queries, modulation: Modulation) -> PerQuery:
        """$Q(x)$: what keeps the state from running away."""

    def forward(self, queries: Queries, scores: Scores, separation: Separation, modulation: Modulation) -> PerQuery:
        return self.confinement(queries, modulation) - separation.potential(scores)

    def __call__(self, queries: Queries, scores: Scores, separation: Separation, modulation: Modulation) -> PerQuery:
        energies: PerQuery = super().__call__(queries, scores, separation, modulation)
        return energies
