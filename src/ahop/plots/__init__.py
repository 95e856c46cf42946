"""Pictures of what was learned. They need matplotlib: `pip install 'ahop[plots]'`."""

from ahop.plots.corruption import CorruptionDisplay
from ahop.plots.threshold import ThresholdDisplay
from ahop.plots.watching import WatchDisplay
from ahop.plots.waterfall import WaterfallDisplay

__all__ = ["CorruptionDisplay", "ThresholdDisplay", "WatchDisplay", "WaterfallDisplay"]
