"""Picture of footprints: where two patterns agree with a query, and how much."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ahop._core.checks import check_kind
from ahop._core.typing import RowsLike
from ahop.memory.memory import AssociativeMemory
from ahop.plots.style import BLUE, GRAY, ORANGE, new_axes
from ahop.similarities.base import DecomposableSimilarity
from ahop.similarities.euclidean import EuclideanSimilarity
from ahop.similarities.footprint import footprint


@dataclass(frozen=True)
class FootprintDisplay:
    r"""For the best answers to a query: the similarity in the $k$ dimensions where they agree best, for each $k$.

    Attributes:
        names: labels of the answers, or their rows, best first.
        footprints: (m, d) of each.
    """

    names: tuple[str, ...]
    footprints: Tensor

    @classmethod
    def from_memory(
        cls, memory: AssociativeMemory, query: RowsLike, count: int = 2, base: DecomposableSimilarity | None = None
    ) -> "FootprintDisplay":
        """Args:
        query: one row.
        count: answers that are shown.
        base: whose addends are sorted; the squared distance if None.
        """
        check_kind("memory", memory, AssociativeMemory)
        with torch.no_grad():
            row = torch.as_tensor(query).to(memory.patterns).reshape(1, -1)
            answer = memory.recall(row, count)
            found = memory.patterns[answer.indices[0]]
            prints = footprint(base or EuclideanSimilarity(), found, row)[0].cpu()
        named = answer.indices[0].tolist() if answer.labels is None else answer.labels[0].tolist()
        return cls(tuple(str(name) for name in named), prints)

    def plot(self, ax: Any = None) -> Any:
        """Draw on these axes, or on a figure of its own; the figure is answered."""
        ax = new_axes(ax)
        sizes = range(1, self.footprints.shape[1] + 1)
        for place, (name, values) in enumerate(zip(self.names, self.footprints, strict=True)):
            color = (BLUE, ORANGE)[place] if place < 2 else GRAY
            ax.plot(sizes, values.tolist(), color=color, marker="o", markersize=3, label=name, zorder=3 - place / 10)
        ax.set(xlabel="how many dimensions, those that agree best first", ylabel="similarity in these")
        ax.set_title("Footprints of the best answers", loc="left")
        ax.legend(frameon=False, loc="lower left")
        return ax.figure
