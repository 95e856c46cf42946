"""Picture of how much more pairs would help."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ahop._core.checks import check_count
from ahop._core.typing import Entries, RowsLike
from ahop.fitting.fit import fit
from ahop.memory.decisions import Share, share_of
from ahop.operate.policies import HeldOut
from ahop.plots.style import BLUE, new_axes

COUNTS = (10, 20, 50, 100, 200)


@dataclass(frozen=True)
class LearningCurveDisplay:
    """Accuracy on held-out pairs by the number of pairs of the fit.

    Attributes:
        counts: pairs.
        right: the share of first answers that are right, with bounds.
        held_out: how many pairs it was counted on.
    """

    counts: tuple[int, ...]
    right: tuple[Share, ...]
    held_out: int

    @classmethod
    def from_pairs(
        cls,
        patterns: RowsLike,
        pairs: tuple[Entries, RowsLike],
        held_out: tuple[Entries, RowsLike],
        *,
        counts: Sequence[int] = COUNTS,
        confidence: float = 0.95,
        **settings: Any,
    ) -> "LearningCurveDisplay":
        """Fit again and again, from the first few pairs to all of them.

        Args:
            pairs: (origins, copies), in any order that chance has made.
            held_out: others, which nothing is learned from.
            counts: how many of the pairs to learn from; those beyond all of them are left out.
            settings: as for `ahop.fit`.
        """
        origins: Any = pairs[0]
        copies: Any = pairs[1]
        kept = [check_count("counts", count) for count in counts if count <= len(copies)]
        if len(copies) not in kept:
            kept.append(len(copies))
        right = []
        for count in kept:
            memory = fit(patterns, pairs=(origins[:count], copies[:count]), **{"progress": False, **settings})
            found = HeldOut(memory, held_out, None, None, confidence).right
            right.append(share_of(int(found.sum()), len(found), confidence))
        return cls(tuple(kept), tuple(right), len(held_out[1]))

    def plot(self, ax: Any = None) -> Any:
        """Draw on these axes, or on a figure of its own; the figure is answered."""
        ax = new_axes(ax)
        ax.fill_between(
            self.counts,
            [share.low for share in self.right],
            [share.high for share in self.right],
            color=BLUE,
            alpha=0.2,
            linewidth=0,
        )
        ax.plot(self.counts, [share.value for share in self.right], color=BLUE, marker="o", markersize=4)
        ax.set_xscale("log")
        ax.set_xticks(self.counts, [str(count) for count in self.counts])
        ax.minorticks_off()
        ax.set(ylim=(0, 1.02), xlabel="pairs to learn from", ylabel="right first answers")
        ax.set_title(f"Counted on {self.held_out} other pairs", loc="left")
        return ax.figure
