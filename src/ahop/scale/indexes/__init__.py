"""The best of very many stored patterns: exhaustive, or by engines whose settings were calibrated."""

import ahop._core.with_torch  # noqa: F401
from ahop.scale.indexes.build import Measured, index, tune
from ahop.scale.indexes.engines.base import Engine, Found
from ahop.scale.indexes.engines.exact import ExactEngine
from ahop.scale.indexes.engines.faiss import FaissEngine
from ahop.scale.indexes.index_file import load_index, save_index
from ahop.scale.indexes.reranking import lifted
from ahop.scale.indexes.row_index import Index

__all__ = [
    "Engine",
    "ExactEngine",
    "FaissEngine",
    "Found",
    "Index",
    "Measured",
    "index",
    "lifted",
    "load_index",
    "save_index",
    "tune",
]
