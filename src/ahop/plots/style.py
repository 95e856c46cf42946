"""Style of all figures: colors, and axes without a box."""

from typing import Any

from ahop._core.optional import pyplot

BLUE, ORANGE, RED, GRAY, BLACK = "#1b5e8c", "#c8702a", "#b3423a", "#9aa5b5", "#222222"


def new_axes(ax: Any, width: float = 5.6, height: float = 3.8) -> Any:
    """These axes, or those of a figure of their own, with two sides."""
    if ax is None:
        _, ax = pyplot().subplots(figsize=(width, height), layout="constrained")
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    return ax
