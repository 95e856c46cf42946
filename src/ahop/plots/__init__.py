"""Pictures of what was learned. They need matplotlib: `pip install 'ahop[plots]'`."""

from ahop.plots.corruption import CorruptionDisplay
from ahop.plots.energy import EnergyDisplay
from ahop.plots.footprint import FootprintDisplay
from ahop.plots.learning import LearningCurveDisplay
from ahop.plots.nuisance import NuisanceDisplay
from ahop.plots.pool import PoolDisplay
from ahop.plots.recall import RecallDisplay
from ahop.plots.reliability import ReliabilityDisplay
from ahop.plots.threshold import ThresholdDisplay
from ahop.plots.watching import WatchDisplay
from ahop.plots.waterfall import WaterfallDisplay

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
