"""FAISS engines: inverted lists, compressed codes, graphs."""

from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from typing import Any, Literal, TypeAlias, final

import numpy as np
import torch
from torch import Tensor
from typing_extensions import override

from ahop import _optional
from ahop._checks import check_choice, check_count
from ahop._free_memory import check_free_memory
from ahop.errors import InvalidValueError, UnsupportedError
from ahop.indexes.engines import faiss_build
from ahop.indexes.engines.base import Engine, Found
from ahop.indexes.engines.clustering import Centers
from ahop.indexes.engines.faiss_build import CODES, LINKS, ROWS_OF_CODES
from ahop.indexes.mips import BLOCK, GEOMETRIES, Geometry, Placing

Kind: TypeAlias = Literal["scan", "ivf_pq", "ivf_flat", "hnsw"]
KINDS: tuple[Kind, ...] = ("scan", "ivf_pq", "ivf_flat", "hnsw")

# Rows that each list is learned from; more make it no better.
ROWS_A_LIST = 20


@final
class FaissEngine(Engine):
    """One engine under three geometries.

    Args:
        vectors: (n, D).
        kind: "scan" looks at a compressed form of every row; "ivf_pq" and "ivf_flat" at some lists of neighbors,
            compressed or not; "hnsw" walks a graph.
        geometry: "inner" asks FAISS for inner products; "augmented" gives each row one more coordinate that makes
            all of them equally long, so that the nearest is the best; "distance" is for liftings that are distances.
        lists: about how many, of neighbors; by default they are finer the more rows there are, and fuller.
        effort: how many lists, or how wide a walk; default an eighth of the lists, or 128.
    """

    def __init__(
        self,
        vectors: Tensor,
        kind: Kind = "ivf_pq",
        geometry: Geometry = "augmented",
        lists: int | None = None,
        effort: int | None = None,
    ) -> None:
        faiss = _optional.faiss()
        self.kind, self.geometry = check_choice("kind", kind, KINDS), check_choice("geometry", geometry, GEOMETRIES)
        most, usual = max(1, len(vectors) // ROWS_A_LIST), max(1, round(len(vectors) ** 0.75 / 8))
        self.lists = min(check_count("lists", lists or usual), most) if "ivf" in kind else 1
        self.placing = Placing.of(vectors, geometry)
        size = self._places(vectors[:1]).shape[1]
        row = size // 2 + 16 if "pq" in kind or kind == "scan" else 4 * size + 8 * LINKS
        check_free_memory(len(vectors) * row, f"{len(vectors)} rows of a {kind} index")
        metric = faiss.METRIC_INNER_PRODUCT if geometry == "inner" else faiss.METRIC_L2
        parts = (self._places(vectors[start : start + BLOCK]) for start in range(0, len(vectors), BLOCK))
        with threads_of_torch():
            self.engine: Any
            if kind == "hnsw":
                self.engine = faiss_build.graph(size, metric, parts)
            elif kind == "scan":
                self.engine = faiss_build.scan(metric, self._places(self._learned_from(vectors)), parts)
            else:
                some = self._places(self._learned_from(vectors))
                centers = Centers.of(some, self.lists)
                self.lists = len(centers)
                self.engine = faiss_build.lists(centers, metric, some if kind == "ivf_pq" else None, parts)
        default = {"scan": 1, "hnsw": 128}.get(kind, max(1, self.lists // 8))
        self.effort = check_count("effort", effort or default)

    @override
    def __len__(self) -> int:
        return int(self.engine.ntotal)

    @override
    def search(self, queries: Tensor, k: int, allowed: Tensor | None = None, beta: float | None = None) -> Found:
        faiss, k = _optional.faiss(), min(k, len(self))
        asked = _even(self.placing.asked(queries)).numpy()
        selector = None
        if allowed is not None:
            bits = np.packbits(allowed.cpu().numpy(), bitorder="little")
            selector = faiss.IDSelectorBitmap(bits)
        if self.kind == "hnsw":
            parameters = faiss.SearchParametersHNSW(efSearch=max(self.effort, k), sel=selector)
        else:
            parameters = faiss.SearchParametersIVF(nprobe=min(self.effort, self.lists), sel=selector)
        with threads_of_torch():
            numbers, rows = self.engine.search(asked, k, params=parameters)
        indices, numbers = torch.from_numpy(rows), torch.from_numpy(numbers)
        scores = self.placing.scores(numbers, queries)
        return Found(indices, scores.masked_fill(indices < 0, -torch.inf))

    @override
    def add(self, vectors: Tensor) -> None:
        with threads_of_torch():
            for start in range(0, len(vectors), BLOCK):
                self.engine.add(self._places(vectors[start : start + BLOCK]).numpy())

    @override
    def settings(self) -> dict[str, object]:
        return {"kind": self.kind, "geometry": self.geometry, "lists": self.lists, "effort": self.effort}

    @override
    def tensors(self) -> dict[str, Tensor]:
        built = torch.from_numpy(_optional.faiss().serialize_index(self.engine))
        radius = torch.tensor(self.placing.radius, dtype=torch.float64)
        return {"built": built, "center": self.placing.center, "radius": radius}

    @classmethod
    def restored(cls, settings: dict[str, Any], tensors: dict[str, Tensor]) -> "FaissEngine":
        """The index that `settings` and `tensors` describe, without the rows it was built from."""
        index = cls.__new__(cls)
        index.kind = check_choice("kind", settings["kind"], KINDS)
        index.geometry = check_choice("geometry", settings["geometry"], GEOMETRIES)
        index.lists, index.effort = check_count("lists", settings["lists"]), check_count("effort", settings["effort"])
        index.placing = Placing(index.geometry, tensors["center"].float(), float(tensors["radius"]))
        check_free_memory(tensors["built"].nbytes, "the built index")
        try:
            index.engine = _optional.faiss().deserialize_index(tensors["built"].numpy())
        except RuntimeError as error:
            raise InvalidValueError(f"the built index cannot be read: {error}") from error
        if index.engine.d != index._places(index.placing.center.unsqueeze(0)).shape[1]:
            raise InvalidValueError("the built index has another number of dimensions than its file says.")
        return index

    def _learned_from(self, vectors: Tensor) -> Tensor:
        """Rows that lists and codes are learned from; not fewer than there are codes."""
        needed = max(ROWS_A_LIST * self.lists, ROWS_OF_CODES)
        if len(vectors) > needed:
            return vectors[torch.randint(len(vectors), (needed,), generator=torch.Generator().manual_seed(0))]
        return vectors.repeat(-(-CODES // len(vectors)), 1)

    def _places(self, vectors: Tensor) -> Tensor:
        return _even(self.placing.places(vectors))

    def with_effort(self, effort: int) -> "FaissEngine":
        """The same rows, searched harder or less hard."""
        if self.kind == "scan":
            raise UnsupportedError("A scan looks at every row; there is no effort to choose.")
        other = copy(self)
        other.effort = check_count("effort", effort)
        return other


def _even(vectors: Tensor) -> Tensor:
    """Codes are of pairs of coordinates."""
    return torch.nn.functional.pad(vectors, (0, vectors.shape[1] % 2)).contiguous()


@contextmanager
def threads_of_torch() -> Iterator[None]:
    """As many threads as torch is allowed: one number to set."""
    faiss = _optional.faiss()
    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(torch.get_num_threads())
    try:
        yield
    finally:
        faiss.omp_set_num_threads(before)
