"""Picture of one answer."""

from dataclasses import dataclass
from typing import Any

from ahop._core.checks import check_kind
from ahop.memory.recall import Recall
from ahop.plots.style import BLUE, GRAY, new_axes


@dataclass(frozen=True)
class RecallDisplay:
    """The likeliest origins of one query, and how likely it has none.

    Attributes:
        names: labels of the answers, or their rows, best first.
        posterior: of each.
        unknown: how likely the query comes from no stored pattern; None if the memory cannot tell.
    """

    names: tuple[str, ...]
    posterior: tuple[float, ...]
    unknown: float | None

    @classmethod
    def from_recall(cls, answer: Recall[Any], query: int = 0) -> "RecallDisplay":
        """Args:
        query: which of those that were asked.
        """
        check_kind("answer", answer, Recall)
        rows, sure = answer.indices[query].tolist(), answer.posterior[query].tolist()
        labels = rows if answer.labels is None else answer.labels[query].tolist()
        kept = [place for place, row in enumerate(rows) if row >= 0]
        unknown = None if answer.unknown is None else float(answer.unknown[query])
        return cls(tuple(str(labels[place]) for place in kept), tuple(sure[place] for place in kept), unknown)

    def plot(self, ax: Any = None) -> Any:
        """Draw on these axes, or on a figure of its own; the figure is answered."""
        names, shares = list(self.names), list(self.posterior)
        if self.unknown is not None:
            shares = [(1 - self.unknown) * share for share in shares]
            names, shares = [*names, "none that is stored"], [*shares, self.unknown]
        ax = new_axes(ax, height=0.35 * len(names) + 1.2)
        colors = [BLUE] * len(self.names) + [GRAY] * (len(names) - len(self.names))
        bars = ax.barh(range(len(names)), shares, color=colors)
        ax.bar_label(bars, [f" {share:.3f}" for share in shares])
        ax.set_yticks(range(len(names)), names)
        ax.invert_yaxis()
        ax.set_xlim(0, 1.12)
        ax.set_xticks([0, 0.25, 0.5, 0.75, 1])
        ax.set_xlabel("probability, all told")
        ax.set_title("Where the query came from", loc="left")
        return ax.figure
