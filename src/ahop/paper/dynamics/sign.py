"""Binary neurons."""

from dataclasses import dataclass
from typing import Literal, final

import torch
from torch import Generator
from typing_extensions import override

from ahop._core.checks import check_choice
from ahop._core.missing import filled, holds_nan
from ahop._core.typing import Queries
from ahop.energies.free import FreeEnergy
from ahop.memory.memory import AssociativeMemory
from ahop.modulations.unmodulated import Unmodulated
from ahop.paper.dynamics.base import Dynamics
from ahop.similarities.dot import DotSimilarity


@final
@dataclass(frozen=True)
class SignDynamics(Dynamics):
    r"""$\sigma \leftarrow \mathrm{sgn}(\mathrm{sep}(s)\,\Xi)$, all neurons at once or one after another.

    A neuron whose input is exactly zero keeps its sign. For a convex potential (Hop, D-Hop with odd exponent, E-Hop)
    either order lowers the energy of a state of signs: the new signs maximize the tangent of a convex function. A query
    that is none yet becomes one in the first step, and nothing is claimed for that. A neuron that was not observed
    (NaN) has no say until it has got its sign.

    Args:
        order: "together", or "one_by_one" in an order drawn from `seed`, the same for every state.
    """

    order: Literal["together", "one_by_one"] = "together"
    seed: int = 0

    def __post_init__(self) -> None:
        check_choice("order", self.order, ("together", "one_by_one"))

    @override
    def step(self, memory: AssociativeMemory, states: Queries) -> Queries:
        states = torch.where(states.isnan(), states, signs_of(states, states))
        patterns = filled(memory.patterns)  # a sum over the patterns observed has the sign of their mean
        if self.order == "together":
            return signs_of(memory.weights(states) @ patterns, states)
        states = states.clone()
        for neuron in torch.randperm(states.shape[-1], generator=Generator().manual_seed(self.seed)).tolist():
            field = memory.weights(states) @ patterns[:, neuron]
            states[:, neuron] = signs_of(field, states[:, neuron])
        return states

    @override
    def descends(self, memory: AssociativeMemory) -> bool:
        return (
            isinstance(memory.similarity, DotSimilarity)
            and isinstance(memory.modulation, Unmodulated)
            and isinstance(memory.energy_function, FreeEnergy)
            and memory.separation.is_convex
            and not holds_nan(memory.patterns)
        )


def signs_of(field: torch.Tensor, previous: torch.Tensor) -> torch.Tensor:
    """Signs of the field; where it is zero the previous sign, and +1 where that is zero too, or not known."""
    signs = torch.where(field == 0, previous, field)
    return torch.where(signs < 0, -1.0, 1.0).to(field.dtype)
