"""Picture of states that walk down an energy."""

from dataclasses import dataclass
from typing import Any

from torch import Tensor

from ahop._core.checks import check_kind
from ahop.errors import UnsupportedError
from ahop.paper.dynamics.trajectory import Trajectory
from ahop.plots.style import BLUE, RED, new_axes


@dataclass(frozen=True)
class EnergyDisplay:
    """The energy of each state, step by step, above where it came to rest.

    Attributes:
        energies: (steps + 1, b).
        converged: (b,) whether each came to rest.
    """

    energies: Tensor
    converged: Tensor

    @classmethod
    def from_trajectory(cls, trajectory: Trajectory) -> "EnergyDisplay":
        """Display of a trajectory, the result of `ahop.iterate`."""
        energies = check_kind("trajectory", trajectory, Trajectory).energies
        if energies is None:
            raise UnsupportedError("This memory has no energy that its dynamics walk down, and so no picture of it.")
        return cls(energies.detach().cpu(), trajectory.converged.cpu())

    def plot(self, ax: Any = None) -> Any:
        """Draw on these axes, or on a figure of its own; the figure is answered."""
        ax = new_axes(ax)
        above = self.energies - self.energies[-1:]
        for values, rests in zip(above.unbind(1), self.converged.tolist(), strict=True):
            ax.plot(range(len(values)), values.tolist(), color=BLUE if rests else RED, linewidth=1, alpha=0.7)
        ax.axhline(0, color="0.4", linewidth=0.8)
        ax.set(xlabel="step", ylabel="energy above the last")
        ax.xaxis.get_major_locator().set_params(integer=True)
        rest = int(self.converged.sum())
        ax.set_title(f"{rest} of {len(self.converged)} states came to rest", loc="left")
        return ax.figure
