"""Everything that recalls, over one memory: what the laws of recall are tried on.

Each has the same patterns, numbered 0 to n - 1, and a column "color" where it has columns at all.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

for needed in ("faiss", "fastapi", "lance", "psutil", "sklearn"):  # the extra `test` has none of them
    pytest.importorskip(needed)

import ahop
from ahop.client import Client
from ahop.estimators import AssociativeRetriever, CorruptionModel
from ahop.scale.cluster import LocalCluster, connect
from ahop.scale.indexes import FaissEngine, Index
from ahop.scale.indexes.build import by_products, candidate_lifting, drawn_pairs
from ahop.scale.indexes.reranking import lifted

COUNT, DIMENSIONS = 400, 8
COLORS = ("red", "green", "blue", "black")


@dataclass(frozen=True)
class Case:
    """One that recalls.

    Attributes:
        make: from a memory and a folder; a context, as some are processes.
        has_columns: `where` takes columns; else rows.
        error: of the posterior, beside that of the memory.
        unknown_error: of the probability that a query is unknown.
        needs: what must be there: "ray" or nothing.
    """

    make: Callable[[ahop.AssociativeMemory, Path], Any]
    has_columns: bool = True
    error: float = 1e-5
    unknown_error: float = 1e-4
    needs: str | None = None


@cache
def fitted() -> ahop.AssociativeMemory:
    """With two devices of opposite shifts, a floor, and a detector of unknown queries; some patterns have gaps."""
    patterns = torch.randn(COUNT, DIMENSIONS, generator=torch.Generator().manual_seed(0))
    pairs, groups = copies(patterns, 300, seed=1)
    return ahop.fit(patterns, pairs=pairs, groups=groups, similarity="mixture", progress=False)


def copies(patterns: Tensor, count: int, seed: int) -> tuple[ahop.Pairs, list[str]]:
    """Of patterns that are seen by two devices, with a little noise."""
    generator = torch.Generator().manual_seed(seed)
    origins = torch.randint(len(patterns), (count,), generator=generator)
    groups = ["up" if origin % 2 else "down" for origin in range(count)]
    shift = torch.tensor([1.0 if group == "up" else -1.0 for group in groups])[:, None]
    noise = 0.25 * torch.randn(count, patterns.shape[1], generator=generator)
    return ahop.Pairs(origins, patterns[origins] + shift + noise), groups


def colors(count: int = COUNT) -> list[str]:
    return [COLORS[row % len(COLORS)] for row in range(count)]


def rows_of(color: str, count: int = COUNT) -> Tensor:
    return torch.tensor([row for row in range(count) if COLORS[row % len(COLORS)] == color])


@contextmanager
def _memory(memory: ahop.AssociativeMemory, folder: Path) -> Iterator[Any]:
    yield memory


@contextmanager
def _exact_index(memory: ahop.AssociativeMemory, folder: Path) -> Iterator[Any]:
    lifting = candidate_lifting(memory, drawn_pairs(memory, None, None, 0), 0.05, None)
    yield by_products(memory, lifting, metadata={"color": colors()})


@contextmanager
def _index(memory: ahop.AssociativeMemory, folder: Path) -> Iterator[Any]:
    yield ahop.index(memory, metadata={"color": colors()})


@contextmanager
def _faiss_index(memory: ahop.AssociativeMemory, folder: Path) -> Iterator[Any]:
    lifting = ahop.lift(memory.similarity, memory.patterns, gaps=True)
    engine = FaissEngine.build(lifted(memory, lifting), "ivf_flat")
    yield Index(memory, lifting, engine.with_effort(engine.lists), 200, {"color": colors()})


def _store_of(memory: ahop.AssociativeMemory, folder: Path) -> Any:
    return ahop.create_store(folder / "store", memory, metadata={"color": colors()}, fragment_rows=150)


@contextmanager
def _store(memory: ahop.AssociativeMemory, folder: Path) -> Iterator[Any]:
    yield _store_of(memory, folder)


@contextmanager
def _stored_index(memory: ahop.AssociativeMemory, folder: Path) -> Iterator[Any]:
    yield _store_of(memory, folder).index()


@contextmanager
def _local_cluster(memory: ahop.AssociativeMemory, folder: Path) -> Iterator[Any]:
    with LocalCluster(_store_of(memory, folder), shards=3) as cluster:
        yield cluster


@contextmanager
def _ray_cluster(memory: ahop.AssociativeMemory, folder: Path) -> Iterator[Any]:
    with connect(_store_of(memory, folder), 2, cpus=0.25) as cluster:
        yield cluster


@contextmanager
def _over_http(memory: ahop.AssociativeMemory, folder: Path) -> Iterator[Any]:
    from ahop.service.testing import running

    _store_of(memory, folder)
    with running(folder, str(folder / "store"), "--shards", "2") as service, Client(service.url) as client:
        yield client


@contextmanager
def _service(memory: ahop.AssociativeMemory, folder: Path) -> Iterator[Any]:
    from ahop.service.testing import running

    _store_of(memory, folder)
    with running(folder, str(folder / "store")) as service, Client(service.url) as client:
        yield client


@contextmanager
def _retriever(memory: ahop.AssociativeMemory, folder: Path) -> Iterator[Any]:
    model = CorruptionModel("mixture")
    pairs, groups = copies(memory.patterns, 300, seed=1)
    model.fit(pairs.queries.numpy(), memory.patterns[pairs.origins].numpy(), groups)
    model.memory_.model = memory.model
    yield AssociativeRetriever(model).fit(memory.patterns.numpy())


ROUGH: Mapping[str, Any] = {"error": 0.02, "unknown_error": 0.05}

RECALLERS: dict[str, Case] = {
    "memory": Case(_memory, has_columns=False),
    "index": Case(_index, **ROUGH),
    "exact index": Case(_exact_index, **ROUGH),
    "FAISS index": Case(_faiss_index, **ROUGH),
    "store": Case(_store),
    "stored index": Case(_stored_index, **ROUGH),
    "local cluster": Case(_local_cluster, **ROUGH),
    "Ray cluster": Case(_ray_cluster, needs="ray", **ROUGH),
    "cluster of a service": Case(_over_http, needs="ray", **ROUGH),
    "service": Case(_service),
    "retriever": Case(_retriever, has_columns=False),
}
