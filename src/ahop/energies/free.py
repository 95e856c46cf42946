"""An energy without confinement."""

from typing import final

from typing_extensions import override

from ahop._core.typing import PerQuery, Queries
from ahop.energies.base import Energy
from ahop.modulations.base import Modulation


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
