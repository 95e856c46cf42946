"""Fit of K-Hop's kernel: patterns are spread apart before any query is seen."""

from dataclasses import dataclass
from typing import final

import torch
from tqdm.auto import tqdm

from ahop._core.checks import check_count, check_positive
from ahop.errors import InvalidTypeError, InvalidValueError
from ahop.fitting.solvers.losses import separation_loss
from ahop.memory.memory import AssociativeMemory
from ahop.memory.report import SolverReport
from ahop.modulations.kernel import KernelModulation


@final
@dataclass(frozen=True)
class SeparationSolver:
    """Adam on the separation loss of the projected patterns.

    Args:
        patterns: how many are spread apart in an epoch. Of a memory of more, as many are drawn anew each time: the
            same few would be spread at the cost of all others.
    """

    epochs: int = 100
    learning_rate: float = 1e-2
    temperature: float = 2.0
    patterns: int = 2048

    def __post_init__(self) -> None:
        check_count("epochs", self.epochs)
        check_positive("learning_rate", self.learning_rate)
        check_positive("temperature", self.temperature)
        if check_count("patterns", self.patterns) < 2:
            raise InvalidValueError("`patterns` must be at least 2, to be spread apart; got 1.")

    def solve(self, memory: AssociativeMemory, seed: int, progress: bool) -> SolverReport:
        modulation = memory.modulation
        if not isinstance(modulation, KernelModulation):
            raise InvalidTypeError(
                f"The separation solver trains a `KernelModulation`; this memory has {modulation!r}."
            )
        if len(memory) < 2:
            raise InvalidTypeError("The separation solver needs at least two patterns to spread apart; got one.")
        generator = torch.Generator().manual_seed(seed)
        optimizer = torch.optim.Adam([modulation.kernel], lr=self.learning_rate)
        losses = []
        with torch.enable_grad(), tqdm(range(self.epochs), desc="fit", unit="epoch", disable=not progress) as epochs:
            for _ in epochs:
                patterns = memory.patterns[self._rows(len(memory), generator)]
                loss = separation_loss(patterns @ modulation.kernel.to(patterns.dtype).mT, self.temperature)
                optimizer.zero_grad()
                loss.backward()  # type: ignore[no-untyped-call]
                optimizer.step()
                losses.append(float(loss.detach()))
                epochs.set_postfix(loss=f"{losses[-1]:.4f}")
        return SolverReport(solver=repr(self), pairs=0, steps=self.epochs, loss_before=losses[0], loss=losses[-1])

    def _rows(self, count: int, generator: torch.Generator) -> torch.Tensor | slice:
        """The patterns of an epoch."""
        return slice(None) if count <= self.patterns else torch.randperm(count, generator=generator)[: self.patterns]
