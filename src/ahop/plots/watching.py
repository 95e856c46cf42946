"""Picture of what unlabeled queries show about a memory."""

from dataclasses import dataclass
from typing import Any

from ahop._core.checks import check_count, check_kind
from ahop._core.optional import pyplot
from ahop.operate.drift import Drift
from ahop.operate.watching import WatchReport

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
