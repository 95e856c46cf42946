"""Binary neurons that flip one after another."""

from dataclasses import dataclass
from typing import final

import torch
from torch import Generator
from typing_extensions import override

from ahop._core.missing import filled
from ahop._core.typing import Queries
from ahop.errors import InvalidTypeError
from ahop.memory.memory import AssociativeMemory
from ahop.modulations.unmodulated import Unmodulated
from ahop.paper.dynamics.base import Dynamics
from ahop.paper.dynamics.sign import signs_of
from ahop.similarities.dot import DotSimilarity


@final
@dataclass(frozen=True)
class FlipDynamics(Dynamics):
    r"""$\sigma_i \leftarrow \arg\min_{\pm 1} E(\sigma_1, \dots, \pm 1, \dots, \sigma_d)$, one neuron after another.

    Where both energies are equal, a neuron keeps its sign. None acts on itself: for Hop it is a matrix of couplings
    whose diagonal is zero, for D-Hop and E-Hop the rule of Krotov and Hopfield and of Demircigil et al. Under
    `SignDynamics` each neuron is also held by its own sign, the harder the more patterns there are. A query that is no
    state of signs becomes one in the first step, and nothing is claimed for that. A neuron that was not observed (NaN)
    has no say until it has got its sign.

    Args:
        seed: of the order of the neurons, the same for every state.
    """

    seed: int = 0

    @override
    def step(self, memory: AssociativeMemory, states: Queries) -> Queries:
        if not _is_linear(memory):
            raise InvalidTypeError(
                f"Flips need a `DotSimilarity` and patterns as they are; this memory has {memory.similarity!r} and "
                f"{memory.modulation!r}."
            )
        states = filled(torch.where(states.isnan(), states, signs_of(states, states)))
        dimensions, potential = states.shape[-1], memory.separation.potential
        # What each neuron adds to the scores, (d, n), also where patterns have gaps and a prior.
        parts = memory.scores(torch.eye(dimensions).to(states)) - memory.scores(states.new_zeros(1, dimensions))
        scores = memory.scores(states)
        for neuron in torch.randperm(dimensions, generator=Generator().manual_seed(self.seed)).tolist():
            before = states[:, neuron].clone()
            others = scores - before.unsqueeze(-1) * parts[neuron]
            gain = potential(others + parts[neuron]) - potential(others - parts[neuron])
            states[:, neuron] = signs_of(gain, before)
            scores = others + states[:, neuron].unsqueeze(-1) * parts[neuron]
        return states

    @override
    def descends(self, memory: AssociativeMemory) -> bool:
        return _is_linear(memory) and memory.energy_function is not None


def _is_linear(memory: AssociativeMemory) -> bool:
    return isinstance(memory.similarity, DotSimilarity) and isinstance(memory.modulation, Unmodulated)
