"""From what was measured to patterns: several visits into one, spectra onto one grid and one scale."""

from ahop.preprocessing.grids import common_grid, resample
from ahop.preprocessing.snv import snv
from ahop.preprocessing.visits import PooledVisits, pool_visits

__all__ = ["PooledVisits", "common_grid", "pool_visits", "resample", "snv"]
