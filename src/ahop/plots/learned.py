"""Pictures of what a memory has learned: corruption, directions of copies, and the pool of similarities."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ahop._core.checks import check_count, check_kind
from ahop._core.missing import observed
from ahop._core.optional import pyplot
from ahop.errors import UnsupportedError
from ahop.memory.likelihood import LikelihoodSimilarity
from ahop.memory.memory import AssociativeMemory
from ahop.memory.report import FitReport, Member, Trial
from ahop.plots.style import BLACK, BLUE, GRAY, ORANGE, new_axes
from ahop.similarities.base import DecomposableSimilarity
from ahop.variants.nuisance import NuisanceVariant

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


@dataclass(frozen=True)
class NuisanceDisplay:
    """The directions that copies move along, the shift that all share, and the noise that is left.

    Attributes:
        directions: (m, d) the largest first, each as long as the std of how far copies go.
        shares: (m,) of what moves copies, by variance, noise included.
        shift: (d,) of all copies.
        noise: (d,) its std.
    """

    directions: Tensor
    shares: tuple[float, ...]
    shift: Tensor
    noise: Tensor

    @classmethod
    def from_memory(cls, memory: AssociativeMemory, count: int = 3) -> "NuisanceDisplay":
        """Args:
        memory: whose similarity is "nuisance".
        count: directions that are shown.
        """
        similarity = check_kind("memory", memory, AssociativeMemory).similarity
        variant = similarity.variant if isinstance(similarity, LikelihoodSimilarity) else None
        if not isinstance(variant, NuisanceVariant):
            raise UnsupportedError(
                f"{similarity!r} knows no directions that copies move along; fit with `similarity='nuisance'`."
            )
        left, sizes, _ = torch.linalg.svd(variant.directions.detach().cpu(), full_matrices=False)
        directions = (left * sizes).mT[: check_count("count", count)]
        total = float((sizes**2).sum() + (variant.std.cpu() ** 2).sum())
        shares = tuple((sizes**2 / total).tolist()[: len(directions)])
        return cls(directions, shares, variant.bias.detach().cpu(), variant.std.detach().cpu())

    def plot(self, figure: Any = None) -> Any:
        """Draw on a matplotlib figure, a new one if None; the figure is answered."""
        figure = figure or pyplot().figure(figsize=(9, 3.8), layout="constrained")
        left, right = (new_axes(ax) for ax in figure.subplots(1, 2, sharex=True))
        colors = [BLUE, ORANGE, BLACK]
        for place, (values, share) in enumerate(zip(self.directions, self.shares, strict=True)):
            color = colors[place] if place < len(colors) else GRAY
            left.plot(values.tolist(), color=color, linewidth=1.5, label=f"{share:.0%} of the variance")
        left.axhline(0, color="0.4", linewidth=0.8)
        left.set(xlabel="dimension", ylabel="one standard deviation along it")
        left.set_title("Each copy moves along these", loc="left")
        left.legend(frameon=False)
        right.plot(self.shift.tolist(), color=ORANGE, linewidth=1.5, label="shift")
        right.fill_between(
            range(len(self.noise)),
            (self.shift - self.noise).tolist(),
            (self.shift + self.noise).tolist(),
            color=ORANGE,
            alpha=0.2,
            linewidth=0,
            label="noise, one standard deviation",
        )
        right.axhline(0, color="0.4", linewidth=0.8)
        right.margins(y=0.25)
        right.set_xlabel("dimension")
        right.set_title("All copies are shifted by this", loc="left")
        right.legend(frameon=False)
        return figure


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
