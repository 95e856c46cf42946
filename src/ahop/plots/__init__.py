"""Pictures of what was learned. They need matplotlib: `pip install 'ahop[plots]'`."""

from ahop.plots.corruption import CorruptionDisplay

__all__ = ["CorruptionDisplay"]
