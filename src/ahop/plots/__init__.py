"""Pictures of what was learned. They need matplotlib: `pip install 'ahop[plots]'`."""

import ahop._core.with_torch  # noqa: F401
from ahop.plots.energy import EnergyDisplay
from ahop.plots.learned import CorruptionDisplay, NuisanceDisplay, PoolDisplay
from ahop.plots.quality import LearningCurveDisplay, ReliabilityDisplay, WatchDisplay
from ahop.plots.single_answers import FootprintDisplay, RecallDisplay, WaterfallDisplay
from ahop.plots.threshold import ThresholdDisplay

__all__ = [
    "CorruptionDisplay",
    "EnergyDisplay",
    "FootprintDisplay",
    "LearningCurveDisplay",
    "NuisanceDisplay",
    "PoolDisplay",
    "RecallDisplay",
    "ReliabilityDisplay",
    "ThresholdDisplay",
    "WatchDisplay",
    "WaterfallDisplay",
]
