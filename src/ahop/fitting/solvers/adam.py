"""The paper's recipe: Adam, two hundred epochs."""

from dataclasses import dataclass
from typing import final

import torch
from tqdm.auto import tqdm

from ahop._core.checks import check_count, check_positive
from ahop.errors import InvalidTypeError
from ahop.fitting.pairs import PairSource
from ahop.fitting.solvers.losses import fenchel_young_loss
from ahop.memory.memory import AssociativeMemory
from ahop.memory.report import SolverReport


@final
@dataclass(frozen=True)
class AdamSolver:
    """Adam on every parameter of the memory's parts, one step an epoch; fresh pairs each time if a variant is given.

    The defaults are the paper's. It works for any similarity, separation and modulation, and promises nothing.

    Paper:
        The appendix on memory retrieval.
    """

    epochs: int = 200
    learning_rate: float = 0.1

    def __post_init__(self) -> None:
        check_count("epochs", self.epochs)
        check_positive("learning_rate", self.learning_rate)

    def solve(self, memory: AssociativeMemory, source: PairSource, progress: bool) -> SolverReport:
        parameters = list(memory.parameters())
        if not parameters:
            raise InvalidTypeError(
                f"There is nothing to fit: {memory.similarity!r} and the other parts have no parameters."
            )
        optimizer = torch.optim.Adam(parameters, lr=self.learning_rate)
        losses, seen = [], 0
        with torch.enable_grad(), tqdm(range(self.epochs), desc="fit", unit="epoch", disable=not progress) as epochs:
            for _ in epochs:
                pairs = source.draw()
                loss = fenchel_young_loss(memory.separation, memory.scores(pairs.queries), pairs.origins).mean()
                optimizer.zero_grad()
                loss.backward()  # type: ignore[no-untyped-call]
                optimizer.step()
                losses.append(float(loss.detach()))
                seen += len(pairs)
                epochs.set_postfix(loss=f"{losses[-1]:.4f}")
        if source.given is not None:
            seen = len(source.given)
        return SolverReport(solver=repr(self), pairs=seen, steps=self.epochs, loss_before=losses[0], loss=losses[-1])
