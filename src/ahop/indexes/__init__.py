"""The best of very many stored patterns: exhaustive, or by engines whose settings were calibrated."""

from ahop.indexes.build import Measured, index, tune
from ahop.indexes.engines.base import Engine, Found
from ahop.indexes.engines.exact import ExactEngine
from ahop.indexes.engines.faiss import FaissEngine
from ahop.indexes.engines.pgvector import PgVectorEngine
from ahop.indexes.files import load_index, save_index
from ahop.indexes.reranking import Index, lifted

__all__ = [
    "Engine",
    "ExactEngine",
    "FaissEngine",
    "Found",
    "Index",
    "Measured",
    "PgVectorEngine",
    "index",
    "lifted",
    "load_index",
    "save_index",
    "tune",
]
