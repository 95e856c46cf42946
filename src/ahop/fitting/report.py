"""What a fit has to say for itself."""

from dataclasses import dataclass


@dataclass(frozen=True)
class FitReport:
    """How a memory was fitted; `print` it.

    Attributes:
        solver: with its settings.
        pairs: how many (origin, copy) pairs were seen in all.
        steps: of the solver.
        loss_before: mean loss of the pairs before the first step.
        loss: and after the last.
        converged: whether the solver met its own stopping rule; None if it has none.
        seconds: wall time.
    """

    solver: str
    pairs: int
    steps: int
    loss_before: float
    loss: float
    converged: bool | None = None
    seconds: float = 0.0

    def __str__(self) -> str:
        end = {True: "converged", False: "stopped before it converged", None: "done"}[self.converged]
        seen = f"{self.pairs} pairs" if self.pairs else "the patterns alone"
        return (
            f"{self.solver}: loss {self.loss_before:.3f} -> {self.loss:.3f} from {seen}, "
            f"{end} after {self.steps} steps, {self.seconds:.1f} s."
        )
