"""An energy with quadratic confinement."""

from typing import final

from typing_extensions import override

from ahop._core.missing import filled
from ahop._core.typing import PerQuery, Queries
from ahop.energies.base import Energy
from ahop.modulations.base import Modulation


@final
class QuadraticEnergy(Energy):
    r"""$Q(x) = \tfrac12 x^\top \mathrm{mod}(x)$: $\tfrac12 |x|^2$ (M-Hop, S-Hop), $\tfrac12 |\Phi x|^2$ (K-Hop).

    Coordinates that were not observed (NaN) add nothing.
    """

    @override
    def confinement(self, queries: Queries, modulation: Modulation) -> PerQuery:
        queries = filled(queries)
        return 0.5 * (queries * modulation(queries)).sum(-1)
