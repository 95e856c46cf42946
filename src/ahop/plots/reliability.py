"""Picture of whether probabilities mean what they say."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from ahop._core.checks import check_count
from ahop._core.typing import Entries, RowsLike
from ahop.memory.decisions import Share, share_of
from ahop.memory.recall import Recaller
from ahop.operate.policies import HeldOut
from ahop.plots.style import BLUE, GRAY, new_axes
from ahop.variants.base import Pairs


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
        sure = held_out.sure if strangers is not None else torch.as_tensor(held_out.answers.posterior)[:, 0]
        order = sure.argsort()
        parts = [part for part in torch.tensor_split(order, check_count("bins", bins)) if len(part)]
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
