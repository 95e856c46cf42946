"""Picture of what a memory has learned about the corruption of its queries."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ahop._core.checks import check_kind
from ahop._core.missing import observed
from ahop._core.optional import pyplot
from ahop.errors import UnsupportedError
from ahop.memory.memory import AssociativeMemory
from ahop.memory.report import FitReport
from ahop.similarities.base import DecomposableSimilarity

STEPS = 81
# Scores below the best of a column by more than this look alike.
DEPTH = 6.0


@dataclass(frozen=True)
class CorruptionDisplay:
    r"""The learned $\phi(\xi_i, x_i)$ of one dimension, and the shift of all.

    Attributes:
        stored: values of a stored dimension, (s,).
        asked: values of the query, (s,).
        phi: what each pair of them adds to the score, (s, s): row for the query's value.
        shifts: of each dimension, (d,); empty if none were learned.
        dimension: the one that is shown.
        title: what was chosen.
    """

    stored: Tensor
    asked: Tensor
    phi: Tensor
    shifts: Tensor
    dimension: int
    title: str

    @classmethod
    def from_memory(cls, memory: AssociativeMemory, dimension: int = 0) -> "CorruptionDisplay":
        """Display of a fitted memory whose similarity is a sum over dimensions."""
        similarity = check_kind("memory", memory, AssociativeMemory).similarity
        if not isinstance(similarity, DecomposableSimilarity):
            raise UnsupportedError(f"{similarity!r} is no sum over dimensions, and has no picture of one of them.")
        report = memory.report if isinstance(memory.report, FitReport) else None
        found = None if report is None else report.corruption
        shifts = torch.tensor(found.shifts if found is not None else ())
        values = memory.patterns[:, dimension]
        values = values[observed(values) > 0].detach().cpu()
        low, high = (float(values.min()), float(values.max())) if len(values) else (-1.0, 1.0)
        margin = 0.25 * (high - low) + 1e-6
        stored = torch.linspace(low, high, STEPS)
        moved = float(shifts[dimension]) if len(shifts) and found is not None and not found.signs else 0.0
        asked = torch.linspace(low - margin + moved, high + margin + moved, STEPS)
        phi = _phi(similarity, memory.patterns.shape[1], dimension, stored, asked)
        title = "Learned similarity of one dimension" if report is None else f"Chosen: {report.chosen}"
        return cls(stored, asked, phi, shifts, dimension, title)

    def plot(self, figure: Any = None) -> Any:
        """Draw on a matplotlib figure, a new one if None; returns it."""
        figure = figure or pyplot().figure(figsize=(9, 3.8), layout="constrained")
        left, right = figure.subplots(1, 2, width_ratios=(1.2, 1))
        shown = (self.phi - self.phi.amax(0, keepdim=True)).clamp_min(-DEPTH)
        extent = (float(self.stored[0]), float(self.stored[-1]), float(self.asked[0]), float(self.asked[-1]))
        image = left.imshow(shown.numpy(), origin="lower", aspect="auto", extent=extent, cmap="magma")
        figure.colorbar(image, ax=left, label="log-evidence below the best")
        left.set(xlabel=f"stored value (dimension {self.dimension})", ylabel="value in the query", title=self.title)
        if len(self.shifts):
            right.bar(range(len(self.shifts)), self.shifts.numpy(), width=1.0, color="tab:orange")
            right.axhline(0, color="0.4", linewidth=0.8)
        right.set(xlabel="dimension", ylabel="shift", title="How far copies are shifted")
        return figure


def _phi(similarity: DecomposableSimilarity, dimensions: int, shown: int, stored: Tensor, asked: Tensor) -> Tensor:
    patterns, queries = torch.zeros(len(stored), dimensions), torch.zeros(len(asked), dimensions)
    patterns[:, shown], queries[:, shown] = stored, asked
    with torch.no_grad():
        return similarity.cpu().per_dimension(patterns, queries)[..., shown]
