"""A density on the line, learned from weighted samples."""

from math import log
from typing import final

import torch
from torch import Generator, Tensor
from typing_extensions import override

from ahop._checks import check_count
from ahop._component import Component

# What keeps a step that no sample fell into possible: as if so many more had been spread over all.
PSEUDO_COUNT = 2.0
LEAST_WIDTH = 1e-30


@final
class StepDensity(Component):
    """Constant on equal steps between two ends; beyond them it falls by a factor of e with each step.

    Edges stay sharp: whether a value can be garbage at all says more than how likely garbage takes it.
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
        found: Tensor = self.log_density.to(values.dtype)[self._step(values)] - beyond / width
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

        Neighbouring steps are merged, two by two, as long as that costs less likelihood than a step is worth by
        Schwarz's criterion.
        """
        counts = torch.bincount(self._step(values).flatten(), weights.flatten().double(), minlength=self.steps)
        total = counts.sum().clamp_min(1.0)
        price = 0.5 * torch.log(total)
        level = counts
        worth = torch.special.xlogy(counts, counts) - price
        density = counts + PSEUDO_COUNT / self.steps
        width = 1
        while len(level) > 1 and len(level) % 2 == 0:
            level, width = level.view(-1, 2).sum(1), 2 * width
            merged = torch.special.xlogy(level, level / width) - price
            apart = worth.view(-1, 2).sum(1)
            flat = (merged >= apart).repeat_interleave(width)
            spread = ((level + PSEUDO_COUNT * width / self.steps) / width).repeat_interleave(width)
            density = torch.where(flat, spread, density)
            worth = torch.maximum(merged, apart)
        step = (self.ends[1] - self.ends[0]) / self.steps
        self.log_density = (density / density.sum() / step).log().to(self.log_density)

    def _step(self, values: Tensor) -> Tensor:
        low, _, width = self._steps_of(values.dtype)
        step: Tensor = ((values - low) / width).clamp(0, self.steps - 1).long()
        return step

    def _steps_of(self, dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
        """Both ends, and the width of a step; some width even where the ends are one in this dtype."""
        low, high = self.ends.to(dtype)
        return low, high, ((high - low) / self.steps).clamp_min(LEAST_WIDTH)
