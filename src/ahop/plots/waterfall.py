"""Picture of why a memory answers as it does."""

from dataclasses import dataclass
from typing import Any

from ahop._core.checks import check_count, check_kind
from ahop._core.optional import pyplot
from ahop.memory.explanation import Bar, Explanation

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
    return f"{bar.name}: {bar.seen:.3g} ({bar.word})"
