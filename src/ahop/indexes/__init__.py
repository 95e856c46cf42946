"""The best of very many stored patterns: exhaustive, or by engines whose settings were calibrated."""

from ahop.indexes.base import Found, Index
from ahop.indexes.calibrating import Measured, calibrate, index
from ahop.indexes.exact import ExactIndex
from ahop.indexes.faiss import FaissIndex
from ahop.indexes.files import load_index, save_index
from ahop.indexes.reranked import RerankedIndex

__all__ = [
    "ExactIndex",
    "FaissIndex",
    "Found",
    "Index",
    "Measured",
    "RerankedIndex",
    "calibrate",
    "index",
    "load_index",
    "save_index",
]
