"""FAISS engines: inverted lists, compressed codes, graphs."""

from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from typing import Any, Literal, TypeAlias, final

import numpy as np
import torch
from torch import Tensor
from typing_extensions import override

from ahop._core import optional
from ahop._core.checks import check_choice, check_count
from ahop._core.free_memory import check_free_memory
from ahop.errors import InvalidValueError, UnsupportedError
from ahop.scale.indexes.engines import faiss_build
from ahop.scale.indexes.engines.base import Engine, Found
from ahop.scale.indexes.engines.clustering import Centers
from ahop.scale.indexes.engines.faiss_build import CODES, LINKS, ROWS_OF_CODES
from ahop.scale.indexes.mips import BLOCK, GEOMETRIES, Geometry, Placing

Kind: TypeAlias = Literal["scan", "ivf_pq", "ivf_flat", "hnsw"]
KINDS: tuple[Kind, ...] = ("scan", "ivf_pq", "ivf_flat", "hnsw")

# Rows that each list is learned from; more make it no better.
ROWS_A_LIST = 20


@final
class FaissEngine(Engine):
    """One engine under three geometries. `build` makes one from rows.

    Args:
        engine: an index of FAISS that holds the rows.
        placing: where it has put them.
        kind: "scan" looks at a compressed form of every row; "ivf_pq" and "ivf_flat" at some lists of neighbors,
            compressed or not; "hnsw" walks a graph.
        lists: how many, of neighbors.
        effort: how many of them are searched, or how wide a walk is.
    """

    def __init__(self, engine: Any, placing: Placing, kind: Kind, lists: int, effort: int) -> None:
        self.engine, self.placing = engine, placing
        self.kind, self.geometry = check_choice("kind", kind, KINDS), placing.geometry
        self.lists, self.effort = check_count("lists", lists), check_count("effort", effort)

    @classmethod
    def build(
        cls,
        vectors: Tensor,
        kind: Kind = "ivf_pq",
        geometry: Geometry = "augmented",
        lists: int | None = None,
        effort: int | None = None,
    ) -> "FaissEngine":
        """An engine that holds these rows.

        Args:
            vectors: (n, D).
            geometry: "inner" asks FAISS for inner products; "augmented" gives each row one more coordinate that makes
                all of them equally long, so that the nearest is the best; "distance" is for liftings that are
                distances.
            lists: about how many; by default they are finer the more rows there are, and fuller.
            effort: default an eighth of the lists, or 128 for a graph.
        """
        faiss = optional.faiss()
        check_choice("kind", kind, KINDS)
        most, usual = max(1, len(vectors) // ROWS_A_LIST), max(1, round(len(vectors) ** 0.75 / 8))
        lists = min(check_count("lists", lists or usual), most) if "ivf" in kind else 1
        placing = Placing.of(vectors, check_choice("geometry", geometry, GEOMETRIES))
        size = _places(placing, vectors[:1]).shape[1]
        row = size // 2 + 16 if "pq" in kind or kind == "scan" else 4 * size + 8 * LINKS
        check_free_memory(len(vectors) * row, f"{len(vectors)} rows of a {kind} index")
        metric = faiss.METRIC_INNER_PRODUCT if geometry == "inner" else faiss.METRIC_L2
        parts = (_places(placing, vectors[start : start + BLOCK]) for start in range(0, len(vectors), BLOCK))
        engine: Any
        with threads_of_torch():
            if kind == "hnsw":
                engine = faiss_build.graph(size, metric, parts)
            else:
                some = _places(placing, _learned_from(vectors, lists))
                if kind == "scan":
                    engine = faiss_build.scan(metric, some, parts)
                else:
                    centers = Centers.of(some, lists)
                    lists = len(centers)
                    engine = faiss_build.lists(centers, metric, some if kind == "ivf_pq" else None, parts)
        usual_effort = {"scan": 1, "hnsw": 128}.get(kind, max(1, lists // 8))
        return cls(engine, placing, kind, lists, effort or usual_effort)

    @override
    def __len__(self) -> int:
        return int(self.engine.ntotal)

    @override
    def search(self, queries: Tensor, k: int, allowed: Tensor | None = None, beta: float | None = None) -> Found:
        faiss, k = optional.faiss(), min(k, len(self))
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
                self.engine.add(_places(self.placing, vectors[start : start + BLOCK]).numpy())

    @override
    def settings(self) -> dict[str, object]:
        return {"kind": self.kind, "geometry": self.geometry, "lists": self.lists, "effort": self.effort}

    @override
    def tensors(self) -> dict[str, Tensor]:
        built = torch.from_numpy(optional.faiss().serialize_index(self.engine))
        radius = torch.tensor(self.placing.radius, dtype=torch.float64)
        return {"built": built, "center": self.placing.center, "radius": radius}

    @classmethod
    def restored(cls, settings: dict[str, Any], tensors: dict[str, Tensor]) -> "FaissEngine":
        """The index that `settings` and `tensors` describe, without the rows it was built from."""
        geometry = check_choice("geometry", settings["geometry"], GEOMETRIES)
        placing = Placing(geometry, tensors["center"].float(), float(tensors["radius"]))
        check_free_memory(tensors["built"].nbytes, "the built index")
        try:
            engine = optional.faiss().deserialize_index(tensors["built"].numpy())
        except RuntimeError as error:
            raise InvalidValueError(f"the built index cannot be read: {error}") from error
        if engine.d != _places(placing, placing.center.unsqueeze(0)).shape[1]:
            raise InvalidValueError("the built index has another number of dimensions than its file says.")
        return cls(engine, placing, settings["kind"], settings["lists"], settings["effort"])

    def with_effort(self, effort: int) -> "FaissEngine":
        """Search the same rows harder or less hard."""
        if self.kind == "scan":
            raise UnsupportedError("A scan looks at every row; there is no effort to choose.")
        other = copy(self)
        other.effort = check_count("effort", effort)
        return other


def _learned_from(vectors: Tensor, lists: int) -> Tensor:
    """Rows that lists and codes are learned from; not fewer than there are codes."""
    needed = max(ROWS_A_LIST * lists, ROWS_OF_CODES)
    if len(vectors) > needed:
        return vectors[torch.randint(len(vectors), (needed,), generator=torch.Generator().manual_seed(0))]
    return vectors.repeat(-(-CODES // len(vectors)), 1)


def _places(placing: Placing, vectors: Tensor) -> Tensor:
    return _even(placing.places(vectors))


def _even(vectors: Tensor) -> Tensor:
    """Codes are of pairs of coordinates."""
    return torch.nn.functional.pad(vectors, (0, vectors.shape[1] % 2)).contiguous()


@contextmanager
def threads_of_torch() -> Iterator[None]:
    """As many threads as torch is allowed: one number to set."""
    faiss = optional.faiss()
    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(torch.get_num_threads())
    try:
        yield
    finally:
        faiss.omp_set_num_threads(before)
