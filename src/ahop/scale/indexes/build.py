"""Build and tune indexes: engine, geometry and effort are measured on corrupted queries."""

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from ahop._core.checks import check_count, check_positive, check_rate
from ahop._core.optional import is_installed
from ahop._core.tensors import distinct
from ahop._core.typing import Entries, Queries, RowsLike
from ahop.errors import InvalidTypeError, UnsupportedError
from ahop.fitting.pairs import GivenPairs, PairSource
from ahop.memory.memory import AssociativeMemory
from ahop.scale.indexes.engines.exact import ExactEngine
from ahop.scale.indexes.engines.faiss import FaissEngine, Kind
from ahop.scale.indexes.lifted_candidates import lift_for_candidates
from ahop.scale.indexes.mips import Geometry
from ahop.scale.indexes.reranking import is_few, lifted, lifted_queries
from ahop.scale.indexes.row_index import Index
from ahop.scale.liftings.base import Lifting
from ahop.scale.liftings.lift import typical_queries
from ahop.similarities.base import Similarity
from ahop.similarities.pooled import PooledSimilarity
from ahop.variants.base import Pairs, Variant

# Up to here looking at every row is fast, and needs no calibration.
EXACT_COUNT = 1_000_000
# From here on compressed rows and lists of neighbors are tried too, in ten seconds here and half a minute at a million.
TUNED_COUNT = 100_000
# Queries at a time that are timed, and how often.
TIMED, RUNS = (1, 8, 64), 3
# Engines and geometries are told apart on so many rows, then the best is built on all.
TRIED_ROWS = 100_000
# A graph takes minutes to build beyond this.
GRAPH_ROWS = 200_000
# Shares of the lists that are looked at, and widths of a walk.
SHARES, WIDTHS = (1 / 64, 1 / 32, 1 / 16, 1 / 8, 1 / 4, 1 / 2), (128, 256, 512, 1024)
# By which power of the number of rows a search takes longer: what is fastest on a part may not be on all.
GROWTH: Mapping[str, float] = {"scan": 1.0, "ivf_pq": 0.6, "ivf_flat": 0.6, "hnsw": 0.2}


@dataclass(frozen=True)
class Measured:
    """One setting and what it gave.

    Attributes:
        hit: of the queries whose origin an exhaustive search answers first, the share whose origin was a candidate.
        seconds: of the search, for each query.
        rows: how many it was measured on.
    """

    kind: str
    geometry: str
    lists: int
    effort: int
    hit: float
    seconds: float
    rows: int

    def as_words(self) -> dict[str, object]:
        return asdict(self)


def index(
    memory: AssociativeMemory,
    pairs: Pairs | tuple[Entries, RowsLike] | None = None,
    *,
    variant: Variant | None = None,
    tolerance: float = 0.05,
    candidates: int = 100,
    metadata: Mapping[str, Any] | None = None,
    candidate_similarity: Similarity | None = None,
) -> Index:
    """An index of the memory, never slower than the memory itself.

    One matrix product brings the candidates; from a hundred thousand patterns on the engine that `tune` picks, if FAISS
    is installed and queries can be drawn. One query and a batch are timed beside looking at every row, and each is
    answered by the faster way. Where rows are few, or nothing can bring candidates, every row is looked at.

    Args:
        pairs: (origins, copies) to tune with, and to lift for; if None, they are drawn. Distances are lifted to
            fewer dimensions if no copy has gaps, and then answer no query with gaps.
        variant: draw them from this distribution.
        tolerance: of the lifting.
        candidates: how many are reranked for each query.
        metadata: columns to filter by.
        candidate_similarity: what brings the candidates, where the memory's own similarity cannot be lifted.
    """
    drawn = drawn_pairs(memory, pairs, variant, 0)
    if is_few(len(memory), candidates):
        return Index(memory, candidates=candidates, metadata=metadata)
    can_tune = len(memory) >= TUNED_COUNT and drawn is not None and is_installed("faiss")
    try:
        if can_tune or len(memory) > EXACT_COUNT:
            return tune(
                memory,
                drawn,
                tolerance=tolerance,
                candidates=candidates,
                metadata=metadata,
                candidate_similarity=candidate_similarity,
            )
        lifting = candidate_lifting(memory, drawn, tolerance, candidate_similarity)
    except UnsupportedError:  # nothing brings candidates, or not enough of them
        return Index(memory, candidates=candidates, metadata=metadata)
    by_product = by_products(memory, lifting, candidates, metadata)
    by_product.scanned = scanned_sooner(by_product, drawn)
    if by_product.scanned is None and not memory.model.groups:
        return Index(memory, candidates=candidates, metadata=metadata)
    return by_product


def by_products(
    memory: AssociativeMemory, lifting: Lifting, candidates: int = 100, metadata: Mapping[str, Any] | None = None
) -> Index:
    """An index whose candidates are the largest inner products with all rows."""
    return Index(memory, lifting, ExactEngine(lifted(memory, lifting)), candidates, metadata)


def scanned_sooner(index: Index, drawn: Pairs | None) -> int | None:
    """Largest number of queries that looking at every row answers sooner than the engine; None for any number."""
    memory, generator = index.memory, torch.Generator().manual_seed(0)
    stored = memory.modulation(memory.patterns)
    known = typical_queries(memory.similarity, stored, generator) if drawn is None else drawn.queries
    most = 0
    for count in TIMED:
        asked = known[torch.arange(count) % len(known)]
        if _seconds(index.memory, asked) > _seconds(index, asked):
            return most
        most = count
    return None


def _seconds(recaller: AssociativeMemory | Index, queries: Queries) -> float:
    """The shortest of a few recalls, behind a first that may prepare something."""
    found = math.inf
    for run in range(1 + RUNS):
        started = time.perf_counter()
        recaller.recall(queries)
        found = min(found, time.perf_counter() - started) if run else found
    return found


def tune(
    memory: AssociativeMemory,
    pairs: Pairs | tuple[Entries, RowsLike] | None = None,
    *,
    variant: Variant | None = None,
    target: float = 0.99,
    budget: float | None = None,
    tolerance: float = 0.05,
    candidates: int = 100,
    kinds: Sequence[Kind] | None = None,
    geometries: Sequence[Geometry] | None = None,
    samples: int = 256,
    metadata: Mapping[str, Any] | None = None,
    candidate_similarity: Similarity | None = None,
    seed: int = 0,
) -> Index:
    """The fastest engine that finds the origins which an exhaustive search finds.

    Queries are corrupted as the memory has learned, or given. Engines and geometries are tried on a part of the
    patterns; the fastest that reaches the target is built on all, and its effort chosen there. What was measured is
    kept with the index, as its `curve`.

    Args:
        target: the least share of origins among the candidates, of those that an exhaustive search answers first.
        budget: seconds for each query; if given, settings that take longer are not considered.
        kinds: of `FaissEngine.build`; default all that can be built in reasonable time.
        geometries: of `FaissEngine.build`; default all that fit the lifting.
        samples: queries to measure with.

    Raises:
        UnsupportedError: no setting reaches the target within the budget.
    """
    check_rate("target", target)
    if budget is not None:
        check_positive("budget", budget)
    drawn = drawn_pairs(memory, pairs, variant, seed, check_count("samples", samples))
    if drawn is None:
        raise InvalidTypeError(
            "The memory's similarity draws no queries of its own: give `pairs=(origins, copies)` or a `variant`."
        )
    lifting = candidate_lifting(memory, drawn, tolerance, candidate_similarity)
    vectors = lifted(memory, lifting)
    answered = Index(memory, lifting, ExactEngine(vectors), candidates).recall(drawn.queries)
    right = answered.indices[:, 0] == drawn.origins
    sample, origins = lifted_queries(memory, lifting, drawn.queries[right]), drawn.origins[right]
    if not len(sample):
        raise UnsupportedError("An exhaustive search finds none of the origins: there is nothing to tune for.")
    chosen = kinds or [kind for kind in ("scan", "ivf_pq", "hnsw") if kind != "hnsw" or len(vectors) <= GRAPH_ROWS]
    fitting: Sequence[Geometry] = geometries or ("augmented", "inner")
    if geometries is None and lifting.is_distance and memory.log_prior is None:
        fitting = ("augmented", "inner", "distance")
    curve: list[Measured] = []
    rows = _some_rows(len(vectors), origins)
    place = torch.searchsorted(rows, origins)
    part = vectors if len(rows) == len(vectors) else vectors[rows]
    built = [FaissEngine.build(part, kind, geometry) for kind in chosen for geometry in fitting]
    found = [(each, _curve(each, sample, place, candidates)) for each in built]
    curve += [point for _, points in found for point in points]
    best = min(found, key=lambda each: _cost(each[1], target, len(vectors)))[0]
    if len(rows) < len(vectors):
        best = FaissEngine.build(vectors, best.kind, best.geometry)
        points = _curve(best, sample, origins, candidates)
        curve += points
    else:
        points = next(each[1] for each in found if each[0] is best)
    allowed = [each for each in points if each.hit >= target and (budget is None or each.seconds <= budget)]
    if not allowed:
        reached = max(points, key=lambda each: each.hit)
        raise UnsupportedError(
            f"No setting finds {target:.3f} of the origins{'' if budget is None else f' in {budget:g} s a query'}: "
            f"{best.kind}, {best.geometry}, found {reached.hit:.3f} in {reached.seconds:.2g} s. Use an `ExactEngine`, "
            "more `candidates`, a smaller `tolerance`, or a lower `target`."
        )
    effort = min(allowed, key=lambda each: each.seconds).effort
    settled = best if best.kind == "scan" else best.with_effort(effort)
    tuned = Index(memory, lifting, settled, candidates, metadata, tuple(curve))
    tuned.scanned = scanned_sooner(tuned, drawn)
    return tuned


def _curve(engine: FaissEngine, sample: Tensor, origins: Tensor, candidates: int) -> list[Measured]:
    """The engine at rising effort, until it finds all."""
    if engine.kind == "scan":
        efforts: list[int] = [1]
    elif engine.kind == "hnsw":
        efforts = [each for each in WIDTHS if each >= candidates]
    else:
        efforts = sorted({max(1, round(share * engine.lists)) for share in SHARES})
    points: list[Measured] = []
    for effort in efforts:
        tried = engine if engine.kind == "scan" else engine.with_effort(effort)
        tried.search(sample[:8], candidates)
        started = time.perf_counter()
        found = tried.search(sample, candidates)
        seconds = (time.perf_counter() - started) / len(sample)
        hit = float((found.indices == origins.unsqueeze(-1)).any(-1).double().mean())
        points.append(Measured(engine.kind, engine.geometry, engine.lists, effort, hit, seconds, len(engine)))
        if hit == 1:
            break
    return points


def _cost(points: list[Measured], target: float, count: int) -> tuple[float, float]:
    """Those that reach the target by the time they will take on all rows, then the others by what they miss."""
    good = [each.seconds * (count / each.rows) ** GROWTH[each.kind] for each in points if each.hit >= target]
    return (0.0, min(good)) if good else (1.0, -max(each.hit for each in points))


def _some_rows(count: int, origins: Tensor) -> Tensor:
    """Rows to try engines on, in rising order, the origins among them."""
    if count <= TRIED_ROWS:
        return torch.arange(count)
    some = torch.randint(count, (TRIED_ROWS,), generator=torch.Generator().manual_seed(0))
    return distinct(torch.cat([some, origins.cpu()]))[0]


def drawn_pairs(
    memory: AssociativeMemory,
    pairs: Pairs | tuple[Entries, RowsLike] | None,
    variant: Variant | None,
    seed: int,
    samples: int = 256,
) -> Pairs | None:
    """The pairs that were given, or that the variant or the memory's own similarity draws; None if there are none."""
    if pairs is not None:
        source = PairSource(memory, pairs, None, samples, seed)
        return source.draw() if not isinstance(pairs, Pairs) else GivenPairs(pairs).draw()
    known = variant or _variant_of(memory.similarity)
    if known is None:
        return None
    return known.sample(memory.modulation(memory.patterns), samples, seed, memory.log_prior)


def _variant_of(similarity: Similarity) -> Variant | None:
    """The corruption model of the similarity; for a pool, of its highest-weighted member that has one."""
    if isinstance(similarity, PooledSimilarity):
        order = similarity.weights.argsort(descending=True).tolist()
        known = [_variant_of(similarity.parts()[row]) for row in order]
        return next((each for each in known if each is not None), None)
    variant = getattr(similarity, "variant", None)
    return variant if isinstance(variant, Variant) else None


def candidate_lifting(
    memory: AssociativeMemory, drawn: Pairs | None, tolerance: float = 0.05, other: Similarity | None = None
) -> Lifting:
    """The lifting of the memory's similarity, or of another, measured on drawn queries."""
    stored, similarity = memory.modulation(memory.patterns), other or memory.similarity
    if drawn is None:  # whatever may be asked, gaps included
        return lift_for_candidates(similarity, stored, None, tolerance=tolerance, gaps=True)
    return lift_for_candidates(similarity, stored, drawn.queries, tolerance=tolerance)
