"""Plain gradient descent on the energy."""

from dataclasses import dataclass
from typing import final

import torch
from typing_extensions import override

from ahop._core.checks import check_positive
from ahop._core.missing import holds_nan
from ahop._core.typing import Queries
from ahop.errors import UnsupportedError
from ahop.memory.memory import AssociativeMemory
from ahop.paper.dynamics.base import Dynamics


@final
@dataclass(frozen=True)
class GradientDescent(Dynamics):
    r"""$x \leftarrow x - \eta \nabla E(x)$, for any memory that has an energy.

    Paper:
        The gradient flow of the energy theorem's appendix: with the unified similarity and $\eta = \tfrac12$ it is the
        de-biased readout.
    """

    step_size: float = 0.5

    def __post_init__(self) -> None:
        check_positive("step_size", self.step_size)

    @override
    def step(self, memory: AssociativeMemory, states: Queries) -> Queries:
        if holds_nan(states):
            raise UnsupportedError(
                "A coordinate that was not observed (NaN) has no place to descend from. Start from "
                "`memory.retrieve(queries)`."
            )
        with torch.enable_grad():
            moving = states.detach().requires_grad_()
            (slope,) = torch.autograd.grad(memory.energy(moving).sum(), moving)
        return states - self.step_size * slope
