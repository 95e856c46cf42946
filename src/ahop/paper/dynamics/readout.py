"""Repeated readout: the answer becomes the next state."""

from dataclasses import dataclass
from typing import final

from typing_extensions import override

from ahop._core.missing import holds_nan
from ahop._core.typing import Queries
from ahop.energies.quadratic import QuadraticEnergy
from ahop.memory.memory import AssociativeMemory
from ahop.paper.dynamics.base import Dynamics
from ahop.similarities.dot import DotSimilarity


@final
@dataclass(frozen=True)
class Readout(Dynamics):
    r"""$x \leftarrow \mathcal T(x) = \mathrm{sep}(s)\,\Xi$.

    With dot products, a convex potential and the quadratic energy (M-, S- and K-Hop) this is the concave-convex
    procedure, so the energy falls. Not so where stored patterns have gaps (NaN): scores are made up for these, and the
    readout is not their gradient.

    Paper:
        Section 2.1, the retrieval dynamics $\mathcal T$.
    """

    @override
    def step(self, memory: AssociativeMemory, states: Queries) -> Queries:
        return memory.read(memory.weights(states))

    @override
    def descends(self, memory: AssociativeMemory) -> bool:
        return (
            isinstance(memory.similarity, DotSimilarity)
            and isinstance(memory.energy_function, QuadraticEnergy)
            and memory.separation.is_convex
            and memory.separation.is_distribution
            and not holds_nan(memory.patterns)
        )
