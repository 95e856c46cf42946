"""Rows before they are compared: transforms inside a similarity, visits into one row, spectra onto one grid."""

import ahop._core.with_torch  # noqa: F401
from ahop.transforms.base import Transform
from ahop.transforms.difference import DifferenceTransform
from ahop.transforms.grids import common_grid, resample
from ahop.transforms.log import LogTransform
from ahop.transforms.power import PowerTransform
from ahop.transforms.rank import RankTransform
from ahop.transforms.select import SelectTransform
from ahop.transforms.snv import SNVTransform, snv
from ahop.transforms.visits import PooledVisits, pool_visits

__all__ = [
    "DifferenceTransform",
    "LogTransform",
    "PooledVisits",
    "PowerTransform",
    "RankTransform",
    "SNVTransform",
    "SelectTransform",
    "Transform",
    "common_grid",
    "pool_visits",
    "resample",
    "snv",
]
