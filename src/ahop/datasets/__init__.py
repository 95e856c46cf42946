"""A building for examples, from no file."""

from ahop.datasets.building import Building, Scans

__all__ = ["Building", "Scans"]
