"""Build FAISS indexes."""

from collections.abc import Iterator
from typing import Any

from torch import Tensor

from ahop._core import optional
from ahop.scale.indexes.engines.clustering import Centers

# Rows that the codes of a compressed index are learned from.
ROWS_OF_CODES, CODES = 8192, 16
# Links of a node of the graph, and how widely they are looked for.
LINKS, BREADTH = 16, 60


def graph(size: int, metric: int, parts: Iterator[Tensor]) -> Any:
    """Rows as they are, each linked with its neighbors."""
    engine = optional.faiss().index_factory(size, f"HNSW{LINKS},Flat", metric)
    engine.hnsw.efConstruction = BREADTH
    for rows in parts:
        engine.add(rows.numpy())
    return engine


def scan(metric: int, some: Tensor, parts: Iterator[Tensor]) -> Any:
    """The codes of all rows in one list; learned from `some`."""
    size = some.shape[1]
    engine = optional.faiss().index_factory(size, f"IVF1,PQ{size // 2}x4fs", metric)
    engine.quantizer.add(some.mean(0, keepdim=True).numpy())
    _learn_codes(engine, some)
    for rows in parts:
        engine.add(rows.numpy())
    return engine


def lists(centers: Centers, metric: int, some: Tensor | None, parts: Iterator[Tensor]) -> Any:
    """A list of neighbors for each center, of rows as they are, or of codes that are learned from `some`.

    FAISS would compare every row with every center; so it is told where each belongs.
    """
    faiss, size = optional.faiss(), centers.points.shape[1]
    by_distance = metric == faiss.METRIC_L2
    quantizer = faiss.IndexFlatL2(size) if by_distance else faiss.IndexFlatIP(size)
    quantizer.add(centers.points.numpy())
    if some is None:
        engine = faiss.IndexIVFFlat(quantizer, size, len(centers), metric)
        engine.train(centers.points.numpy())  # the lists are known: only says so
    else:
        engine = faiss.IndexIVFPQ(quantizer, size, len(centers), size // 2, 4, metric)
        engine.by_residual = False
        _learn_codes(engine, some)
    for rows in parts:
        belongs = centers.nearest(rows, by_distance).numpy()
        engine.add_core(len(rows), faiss.swig_ptr(rows.numpy()), None, faiss.swig_ptr(belongs))
    # Codes side by side, as they are scanned fastest; only a plain index can be told where rows belong.
    filled = engine if some is None else faiss.IndexIVFPQFastScan(engine)
    quantizer.this.disown()
    filled.own_fields = True
    return filled


def _learn_codes(engine: Any, some: Tensor) -> None:
    engine.pq.cp.min_points_per_centroid = 1  # small indexes are allowed, without a warning
    engine.train(some[:ROWS_OF_CODES].numpy())
