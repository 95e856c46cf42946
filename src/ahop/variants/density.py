"""A density on the line, learned from weighted samples."""

from math import log
from typing import final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Generator, Tensor
from typing_extensions import override

from ahop._core.checks import check_count
from ahop._core.component import Component

# What keeps a step that no sample fell into possible: as if so many more had been spread over all.
PSEUDO_COUNT = 2.0
LEAST_WIDTH = 1e-30


@final
class StepDensity(Component):
    """Constant on equal steps between two ends; beyond them it falls by a factor of e with each step.

    Edges stay sharp: whether an outlier can have a value at all says more than how likely it has it.
    """

    ends: Tensor
    log_density: Tensor

    def __init__(self, steps: int = 256) -> None:
        super().__init__()
        self.steps = check_count("steps", steps)
        self.register_buffer("ends", torch.tensor([-1.0, 1.0]))
        self.register_buffer("log_density", torch.full((steps,), -log(2)))

    @override
    def configuration(self) -> dict[str, object]:
        return {"steps": self.steps}

    def log_prob(self, values: Tensor) -> Tensor:
        low, high, width = self._steps_of(values.dtype)
        beyond = torch.maximum(low - values, values - high).clamp_min(0)
        found: Tensor = self.log_density.to(values.dtype)[self._step(values, low, width)] - beyond / width
        return found

    def sample(self, shape: tuple[int, ...], generator: Generator) -> Tensor:
        low, high = self.ends
        rates = torch.softmax(self.log_density, 0)
        steps = torch.multinomial(rates, max(1, torch.Size(shape).numel()), replacement=True, generator=generator)
        within = torch.rand(steps.shape, generator=generator)
        drawn: Tensor = low + (steps + within) * (high - low) / self.steps
        return drawn[: torch.Size(shape).numel()].view(shape)

    def fit(self, values: Tensor, weights: Tensor) -> None:
        """The histogram with as many steps as the values can carry, wide where it is flat and narrow at its edges.

        Neighboring steps are merged, two by two, as long as that costs less likelihood than a step is worth by
        Schwarz's criterion.
        """
        low, _, width = self._steps_of(values.dtype)
        step = self._step(values, low, width).flatten()
        self.fit_counts(torch.bincount(step, weights.flatten().double(), minlength=self.steps))

    def fit_counts(self, counts: Tensor, least_width: float = 0.0) -> None:
        """Fit the density to counts on each step, (steps,); none narrower than the least width.

        Values that lie on a grid, such as whole numbers, would else fall on some steps and never on those between.
        """
        level = counts.double().cpu().numpy()  # few numbers and many steps: torch would take three times as long
        price = 0.5 * log(max(float(level.sum()), 1.0))
        worth = _xlogx(level) - price
        density = level + PSEUDO_COUNT / self.steps
        width, step = 1, float(self.ends[1] - self.ends[0]) / self.steps
        while len(level) > 1 and len(level) % 2 == 0:
            level, width = level[::2] + level[1::2], 2 * width
            merged, apart = _xlogx(level) - level * log(width) - price, worth[::2] + worth[1::2]
            spread = (level + PSEUDO_COUNT * width / self.steps) / width
            flat = (merged >= apart) | (width // 2 * step < least_width)
            density = np.where(flat[:, None], spread[:, None], density.reshape(-1, width)).reshape(-1)
            worth = np.where(flat, merged, apart)
        found = torch.from_numpy(density / density.sum()).to(self.log_density.device)
        self.log_density = (found / max(step, LEAST_WIDTH)).log().to(self.log_density)

    def _step(self, values: Tensor, low: Tensor, width: Tensor) -> Tensor:
        step: Tensor = ((values - low) / width).clamp(0, self.steps - 1).long()
        return step

    def _steps_of(self, dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
        """Both ends, and the width of a step; some width even where the ends are one in this dtype."""
        low, high = self.ends.to(dtype)
        return low, high, ((high - low) / self.steps).clamp_min(LEAST_WIDTH)


def _xlogx(values: NDArray[np.float64]) -> NDArray[np.float64]:
    found: NDArray[np.float64] = values * np.log(np.maximum(values, 1e-300))
    return found
