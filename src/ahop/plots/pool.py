"""Picture of which similarities were compared and pooled."""

from dataclasses import dataclass
from typing import Any

from ahop._core.checks import check_kind
from ahop.errors import UnsupportedError
from ahop.memory.report import FitReport, Member, Trial
from ahop.plots.style import BLACK, BLUE, GRAY, new_axes


@dataclass(frozen=True)
class PoolDisplay:
    """The held-out log-loss of each candidate by itself, and of what was chosen.

    Attributes:
        trials: the candidates, best first.
        members: those that were pooled, or the one that was chosen.
        loss: of what was chosen.
    """

    trials: tuple[Trial, ...]
    members: tuple[Member, ...]
    loss: float

    @classmethod
    def from_report(cls, report: FitReport, count: int = 10) -> "PoolDisplay":
        """Args:
        report: of a memory that `ahop.fit` compared candidates for.
        count: candidates that are shown.
        """
        trials = check_kind("report", report, FitReport).trials
        if not trials:
            raise UnsupportedError("Nothing was compared in this fit, so there is no picture of it.")
        return cls(trials[:count], report.members, report.loss)

    def plot(self, ax: Any = None) -> Any:
        """Draw on these axes, or on a figure of its own; the figure is answered."""
        ax = new_axes(ax, 6.4, 0.32 * len(self.trials) + 1.5)
        weights = {member.name: member.weight for member in self.members}
        names = [trial.name for trial in self.trials]
        losses = [trial.log_loss for trial in self.trials]
        bars = ax.barh(range(len(names)), losses, color=[BLUE if name in weights else GRAY for name in names])
        pooled = len(weights) > 1
        told = [f" {trial.accuracy:.0%} first" for trial in self.trials]
        told = [
            f"{each}, weight {weights[name]:.2f}" if pooled and name in weights else each
            for each, name in zip(told, names, strict=True)
        ]
        ax.bar_label(bars, told, fontsize="small")
        ax.axvline(self.loss, color=BLACK, linewidth=1, linestyle=":")
        ax.set_yticks(range(len(names)), names)
        ax.invert_yaxis()
        ax.set_xlim(0, 1.35 * max(losses))
        ax.set_xlabel("held-out log-loss; dotted: of what was chosen")
        ax.set_title("Pooled: blue" if pooled else "Chosen: blue", loc="left")
        return ax.figure
