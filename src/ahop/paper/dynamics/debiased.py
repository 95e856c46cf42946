"""The de-biased dynamics of the energy theorem."""

from dataclasses import dataclass
from typing import final

import torch
from typing_extensions import override

from ahop._core.missing import holds_nan
from ahop._core.typing import Queries
from ahop.energies.free import FreeEnergy
from ahop.errors import InvalidTypeError
from ahop.memory.memory import AssociativeMemory
from ahop.paper.dynamics.base import Dynamics
from ahop.separations.softmax import Softmax
from ahop.similarities.unified import UnifiedSimilarity


@final
@dataclass(frozen=True)
class DebiasedReadout(Dynamics):
    r"""$x \leftarrow \mathcal T(x) + b/2$, answer $x - b/2$, for $s = -\lVert x - \xi \rVert^2 + b^\top(x - \xi)$.

    States live among the biased queries and rest near $\xi + d$, $d = b/2$; the answer takes the bias off again.
    One proof of the paper prints $-b/2$ for the step, which does not lower the energy.

    Paper:
        [eqn:ret]; that it lowers the energy is [lem:dec] with its inequality [eqn:dec], and that the energy is bounded
        [thm:energy].
    """

    bias: torch.Tensor

    @classmethod
    def of(cls, memory: AssociativeMemory) -> "DebiasedReadout":
        """The dynamics that belongs to a memory with a unified similarity."""
        if not isinstance(memory.similarity, UnifiedSimilarity):
            raise InvalidTypeError(
                f"A de-biased readout needs a `UnifiedSimilarity`; this memory has {memory.similarity!r}."
            )
        similarity = memory.similarity
        return cls((similarity.slope / (2 * similarity.precision)).detach().to(memory.patterns))

    @override
    def step(self, memory: AssociativeMemory, states: Queries) -> Queries:
        return memory.read(memory.weights(states)) + self.bias

    @override
    def answer(self, memory: AssociativeMemory, states: Queries) -> Queries:
        return states - self.bias

    @override
    def descends(self, memory: AssociativeMemory) -> bool:
        return (
            isinstance(memory.similarity, UnifiedSimilarity)
            and bool((memory.similarity.precision == 1).all())
            and torch.equal(memory.similarity.slope.detach().to(self.bias), 2 * self.bias)
            and isinstance(memory.energy_function, FreeEnergy)
            and isinstance(memory.separation, Softmax)
            and memory.separation.beta == 1
            and memory.separation.floor == 0
            and not holds_nan(memory.patterns)
        )
