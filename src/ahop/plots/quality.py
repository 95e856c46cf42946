"""Pictures of how good answers are: by the number of pairs, by the stated probability, and since the fit."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ahop._core.arrays import to_numpy
from ahop._core.checks import check_count, check_kind
from ahop._core.optional import pyplot
from ahop._core.typing import Entries, RowsLike
from ahop.fitting.fit import fit
from ahop.memory.decisions import Share, share_of
from ahop.memory.recall import Recaller
from ahop.operate.drift import Drift
from ahop.operate.policies import HeldOut
from ahop.operate.watching import WatchReport
from ahop.plots.style import BLUE, GRAY, new_axes
from ahop.variants.base import Pairs

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


@dataclass(frozen=True)
class ReliabilityDisplay:
    """Reliability diagram: accuracy of first answers by their confidence, on held-out pairs.

    Attributes:
        said: how sure the answers of each bin are on average, rising.
        right: the share of its answers that are right, with bounds.
        counts: how many answers each bin has; all have nearly as many.
        error: how far apart both are on average over the answers: the expected calibration error.
    """

    said: tuple[float, ...]
    right: tuple[Share, ...]
    counts: tuple[int, ...]
    error: float

    @classmethod
    def from_pairs(
        cls,
        memory: Recaller,
        pairs: Pairs | tuple[Entries, RowsLike],
        *,
        strangers: RowsLike | None = None,
        groups: Sequence[object] | None = None,
        bins: int = 10,
        confidence: float = 0.95,
    ) -> "ReliabilityDisplay":
        """Judge answers to pairs that the memory was not fitted to.

        Without strangers the posterior is judged, which is for queries of stored patterns; with them, the confidence.

        Args:
            strangers: queries of no stored pattern; an answer to one is wrong.
            bins: of as many answers each.
            confidence: of each interval.
        """
        held_out = HeldOut(memory, pairs, strangers, groups, confidence)
        sure = held_out.sure if strangers is not None else to_numpy(held_out.answers.posterior)[:, 0]
        order = sure.argsort()
        parts = [part for part in np.array_split(order, check_count("bins", bins)) if len(part)]
        said = [float(sure[part].mean()) for part in parts]
        right = [share_of(int(held_out.right[part].sum()), len(part), confidence) for part in parts]
        counts = [len(part) for part in parts]
        apart = [abs(one - other.value) * n for one, other, n in zip(said, right, counts, strict=True)]
        return cls(tuple(said), tuple(right), tuple(counts), sum(apart) / max(1, len(order)))

    def plot(self, ax: Any = None) -> Any:
        """Draw on these axes, or on a figure of its own; the figure is answered."""
        ax = new_axes(ax, 4.8, 4.2)
        values = [share.value for share in self.right]
        errors = [[share.value - share.low for share in self.right], [share.high - share.value for share in self.right]]
        ax.plot([0, 1], [0, 1], color=GRAY, linewidth=0.9, linestyle=":")
        ax.errorbar(self.said, values, errors, color=BLUE, marker="o", markersize=4, capsize=3)
        each = " or ".join(f"{count:,}" for count in sorted(set(self.counts)))  # two counts that differ by one at most
        ax.set(xlim=(0, 1.02), ylim=(0, 1.02), ylabel="how often it is right")
        ax.set_xlabel(f"how sure it says it is; {len(self.counts)} bins of {each} answers")
        ax.set_title(f"Off by {self.error:.3f} on average", loc="left")
        return ax.figure


MOVED, QUIET, LINE = "#b3423a", "#9aa5b5", "#3a4a63"


@dataclass(frozen=True)
class WatchDisplay:
    """The estimated accuracy, window by window, and the dimensions that have moved most.

    Attributes:
        report: what is drawn.
        drift: the dimensions that are shown, largest first.
    """

    report: WatchReport
    drift: tuple[Drift, ...]

    @classmethod
    def from_report(cls, report: WatchReport, count: int = 8) -> "WatchDisplay":
        """Args:
        count: dimensions that are shown.
        """
        check_kind("report", report, WatchReport)
        return cls(report, report.drift[: check_count("count", count)])

    def plot(self, ax: Any = None) -> Any:
        """Draw on these two axes, or on a figure of its own; the figure is answered."""
        if ax is None:
            _, ax = pyplot().subplots(1, 2, figsize=(10, 0.3 * len(self.drift) + 2.2), layout="constrained")
        self._draw_accuracy(ax[0])
        self._draw_drift(ax[1])
        for each in ax:
            for side in ("top", "right"):
                each.spines[side].set_visible(False)
        return ax[0].figure

    def _draw_accuracy(self, ax: Any) -> None:
        windows = self.report.windows or (self.report,)
        shares = [each.accuracy for each in windows if each.accuracy is not None]
        if len(shares) < len(windows):
            ax.set_axis_off()
            ax.text(0, 0.5, "How many answers are right cannot be told:\nno label has checked the probabilities.")
            return
        places, values = range(1, len(windows) + 1), [share.value for share in shares]
        errors = [[share.value - share.low for share in shares], [share.high - share.value for share in shares]]
        ax.errorbar(places, values, errors, color=LINE, marker="o", capsize=3, zorder=1)
        alarmed = [(place, value) for place, value, each in zip(places, values, windows, strict=True) if each.alarm]
        if alarmed:
            ax.scatter(*zip(*alarmed, strict=True), color=MOVED, s=60, zorder=2, label="something has moved")
            ax.legend(loc="lower left", frameon=False)
        ax.set_xticks(places)
        ax.set_ylim(0, 1.02)
        ax.set_xlabel("window" if self.report.windows else "all queries")
        ax.set_title("right first answers, estimated", loc="left")

    def _draw_drift(self, ax: Any) -> None:
        colors = [MOVED if each.p <= self.report.false_alarms else QUIET for each in self.drift]
        ax.barh(range(len(self.drift)), [each.size for each in self.drift], color=colors, height=0.62)
        ax.set_yticks(range(len(self.drift)), [str(each) for each in self.drift])
        ax.invert_yaxis()
        ax.set_xlabel("standard errors")
        ax.set_title(f"{len(self.report.moved)} of {len(self.report.drift)} dimensions have moved", loc="left")
