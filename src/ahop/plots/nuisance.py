"""Picture of what moves copies as a whole."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ahop._core.checks import check_count, check_kind
from ahop._core.optional import pyplot
from ahop.errors import UnsupportedError
from ahop.memory.likelihood import LikelihoodSimilarity
from ahop.memory.memory import AssociativeMemory
from ahop.plots.style import BLACK, BLUE, GRAY, ORANGE, new_axes
from ahop.variants.nuisance import NuisanceVariant


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
