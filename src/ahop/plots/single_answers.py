"""Pictures of the answer to one query: who it may be, where they agree, and what each dimension says."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ahop._core.checks import check_count, check_kind
from ahop._core.optional import pyplot
from ahop._core.typing import RowsLike
from ahop.memory.explanation import Bar, Explanation
from ahop.memory.memory import AssociativeMemory
from ahop.memory.recall import Recall
from ahop.plots.style import BLUE, GRAY, ORANGE, new_axes
from ahop.similarities.base import DecomposableSimilarity
from ahop.similarities.euclidean import EuclideanSimilarity
from ahop.similarities.footprint import footprint


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


FOR, AGAINST, TOTAL = "#2a7f62", "#b3423a", "#3a4a63"


@dataclass(frozen=True)
class WaterfallDisplay:
    """From even odds to those of the answer against its rival, reason by reason.

    Attributes:
        explanation: what is drawn.
        bars: the largest reasons, all others as one.

    Example:
        >>> memory = ahop.AssociativeMemory([[0.0, 1.0], [1.0, 0.0]])
        >>> WaterfallDisplay.from_explanation(memory.explain([0.1, 0.9])).bars[0].name
        'dimension 1'
    """

    explanation: Explanation
    bars: tuple[Bar, ...]

    @classmethod
    def from_explanation(cls, explanation: Explanation, count: int = 8) -> "WaterfallDisplay":
        """Args:
        count: reasons that are shown by themselves.
        """
        check_kind("explanation", explanation, Explanation)
        return cls(explanation, tuple(explanation.shown(check_count("count", count))))

    def plot(self, ax: Any = None) -> Any:
        """Draw on these axes, or on a figure of its own; the figure is answered."""
        if ax is None:
            _, ax = pyplot().subplots(figsize=(7, 0.42 * len(self.bars) + 1.6), layout="constrained")
        reached = 0.0
        for place, bar in enumerate(self.bars):
            ax.barh(place, bar.log_odds, left=reached, height=0.62, color=FOR if bar.log_odds > 0 else AGAINST)
            _number(ax, place, bar.log_odds, reached + bar.log_odds)
            reached += bar.log_odds
            ax.plot([reached, reached], [place - 0.31, place + 1.31], color="0.6", linewidth=0.8)
        ax.barh(len(self.bars), self.explanation.log_odds, height=0.62, color=TOTAL)
        _number(ax, len(self.bars), self.explanation.log_odds, self.explanation.log_odds)
        ax.use_sticky_edges = False
        ax.margins(x=0.12, y=0.02)
        ax.axvline(0, color="0.3", linewidth=0.8)
        ax.set_yticks(range(len(self.bars) + 1), [*(_caption(bar) for bar in self.bars), "all together"])
        ax.invert_yaxis()
        answer, rival = self.explanation.answer, self.explanation.rival
        ax.set_xlabel(f"\N{LEFTWARDS ARROW} for {rival}    log-odds (nats)    for {answer} \N{RIGHTWARDS ARROW}")
        ax.set_title(self.explanation.headline.replace(", ", ",\n", 1), loc="left", fontsize="medium")
        for side in ("top", "right"):
            ax.spines[side].set_visible(False)
        return ax.figure


def _number(ax: Any, place: int, size: float, end: float) -> None:
    """Beside the bar, on the side that it points to."""
    side = 1 if size >= 0 else -1
    ax.annotate(
        f"{size:+z.1f}",
        (end, place),
        xytext=(4 * side, 0),
        textcoords="offset points",
        ha="left" if side > 0 else "right",
        va="center",
        fontsize="small",
    )


def _caption(bar: Bar) -> str:
    if bar.seen is None:
        return f"{bar.name} ({bar.word})"
    seen = bar.seen if isinstance(bar.seen, str) else f"{bar.seen:.3g}"
    return f"{bar.name}: {seen} ({bar.word})"
