r"""Energies: $E(x) = Q(x) - \Psi^*(s)$, one line for eight networks."""

from abc import ABC, abstractmethod
from typing import final

from typing_extensions import override

from ahop._component import Component
from ahop._observed import filled
from ahop._typing import PerQuery, Queries, Scores
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


@final
class FreeEnergy(Energy):
    r"""$Q = 0$: for states confined to signs (Hop, D-Hop, E-Hop), and for scores that fall off by themselves (A-Hop).

    Paper:
        [eqn:eng], $E = -\mathrm{lse}(s)$; with the unified similarity and $a = 1$ it is
        $\lVert x \rVert^2 - \mathrm{lse}(Ax + c)$, $A_n = 2\xi_n + b$, $c_n = -\xi_n^\top b - \lVert \xi_n \rVert^2$
        [lem:rewrite].
    """

    @override
    def confinement(self, queries: Queries, modulation: Modulation) -> PerQuery:
        return queries.new_zeros(queries.shape[:-1])


@final
class QuadraticEnergy(Energy):
    r"""$Q(x) = \tfrac12 x^\top \mathrm{mod}(x)$: $\tfrac12 |x|^2$ (M-Hop, S-Hop), $\tfrac12 |\Phi x|^2$ (K-Hop).

    Coordinates that were not observed (NaN) add nothing.
    """

    @override
    def confinement(self, queries: Queries, modulation: Modulation) -> PerQuery:
        queries = filled(queries)
        return 0.5 * (queries * modulation(queries)).sum(-1)
