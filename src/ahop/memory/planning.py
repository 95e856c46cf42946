"""Plans: a model and its patterns laid out for the compiled recall, where it knows all of the model's parts.

Parts are known by the names of their classes and by what they learned, in tensors or in arrays: torch is not needed.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, final

import numpy as np
from numpy.typing import NDArray

from ahop._core.arrays import to_numpy
from ahop._core.kernels import compiled
from ahop.errors import ShapeError

# As the compiled plan numbers them.
MEASURES: Final[dict[str, int]] = {
    "DotSimilarity": 0,
    "CosineSimilarity": 1,
    "EuclideanSimilarity": 2,
    "ManhattanSimilarity": 3,
    "SorensenSimilarity": 4,
}
RAISE, LOGARITHM, VARIATE, DIFFERENCE = 1, 2, 3, 4
# That the detector looks at.
FEATURES = 4
# Rows that show how much of the patterns was observed.
SAMPLED = 1000
# Entries of a table that one register holds: between its knots, and for what was not observed.
MOST_KNOTS = 16
# Lists pay where fewer values were observed than this share: a value of a list is added to a row that must be found.
FEW_OBSERVED = 0.25
# Bytes that a plan may take beside the patterns themselves.
MOST_BYTES = 2**30
# Sharper separations see one pattern alone, and leave single precision.
LARGEST_BETA = 1e6


@final
class UnplannedError(Exception):
    """Raised for a model, or data, that the compiled recall does not know."""


@final
@dataclass(frozen=True)
class Plan:
    """One model with its patterns.

    Attributes:
        compiled: what answers.
        has_detector: it tells how likely an origin is unknown.
    """

    compiled: Any
    has_detector: bool

    def rank(
        self, queries: NDArray[np.float32], k: int, threads: int, allowed: NDArray[np.bool_] | None = None
    ) -> "Answered | None":
        """The k best rows of each query; None beyond single precision.

        Args:
            allowed: (n,) the rows that may be answered; all if None. Where these are fewer than k, rows end in -1.
        """
        ids = np.empty((len(queries), k), dtype=np.int64)
        posterior, log_odds = np.empty(ids.shape, dtype=np.float32), np.empty(len(ids))
        asked = np.require(queries, requirements=["C", "A"])
        flags = None if allowed is None else allowed.view(np.uint8)
        if not self.compiled.rank(asked, ids, posterior, log_odds, threads, flags):
            return None
        return Answered(ids, posterior, log_odds if self.has_detector else None)


@final
@dataclass(frozen=True)
class Answered:
    """Answers, best first.

    Attributes:
        ids: (b, k) rows.
        posterior: (b, k).
        log_odds: (b,) that the origin is unknown; None where nothing tells.
    """

    ids: NDArray[np.int64]
    posterior: NDArray[np.float32]
    log_odds: NDArray[np.float64] | None

    @property
    def unknown(self) -> NDArray[np.float32] | None:
        """Probability of an unknown origin, (b,)."""
        if self.log_odds is None:
            return None
        with np.errstate(over="ignore"):
            found: NDArray[np.float32] = (1 / (1 + np.exp(-self.log_odds))).astype(np.float32)
        return found


def plan_of(model: Any, stored: NDArray[Any], log_prior: Any) -> Plan | None:
    """Lay out the patterns, which are modulated; None where another must answer."""
    if not hasattr(compiled.native, "Plan") or stored.dtype != np.float32:
        return None  # built without a compiler, or before there were plans
    if kind_of(model.modulation) != "Unmodulated" or len(stored) == 0:
        return None
    if not model.weighs_by_mass or not model.beta < LARGEST_BETA or stored.shape[1] > compiled.MOST_DIMENSIONS:
        return None
    stored = np.require(stored, requirements=["C", "A"])
    observed = 1 - float(np.isnan(stored[:: 1 + len(stored) // SAMPLED]).mean())
    parts = _count_leaves(model.similarity)
    for as_lists in [True, False] if observed < FEW_OBSERVED else [False]:
        if parts * stored.nbytes * (2 * observed if as_lists else 1) > MOST_BYTES:
            continue
        try:
            return _planned(model, stored, log_prior, as_lists)
        except UnplannedError:
            continue
    return None


def kind_of(part: object) -> str:
    """The name by which a file knows a part of ours; a stranger's has none."""
    kind = type(part)
    return str(getattr(part, "kind", kind.__name__)) if kind.__module__.startswith("ahop.") else ""


def _planned(model: Any, stored: NDArray[np.float32], log_prior: Any, as_lists: bool) -> Plan:
    assert compiled.native is not None
    builder = _Builder(compiled.native.Plan(stored, as_lists), as_lists, stored.shape[1])
    _add(model.similarity, builder, (), 1.0)
    detector = None
    if model.detector is not None:
        numbers = [model.detector.center, model.detector.scale, model.detector.slopes]
        features = [builder.sized(each, FEATURES) for each in numbers]
        detector = np.concatenate([*features, builder.sized(model.detector.offset)[None]])[None]
    builder.compiled.finish(
        builder.is_pool,
        float(model.beta),
        float(model.separation.floor) if kind_of(model.separation) == "Softmax" else 0.0,
        None if log_prior is None else builder.sized(log_prior, len(stored)),
        detector,
        0.0 if model.detector is None else model.detector.log_prior_odds,
    )
    return Plan(builder.compiled, model.detector is not None)


def _count_leaves(similarity: Any) -> int:
    """Parts that read the patterns."""
    if kind_of(similarity) == "PooledSimilarity":
        return sum(map(_count_leaves, similarity.members))
    base = getattr(similarity, "base", None)
    return 1 if base is None else _count_leaves(base)


@dataclass(frozen=True)
class _Step:
    """Steps applied to queries first, and to the patterns too if they are transforms.

    Attributes:
        sizes: of what is taken off each dimension, where the step is no transform.
    """

    add: Callable[[Any], None]
    transform: Any = None
    sizes: tuple[int, ...] = ()


_Steps: TypeAlias = tuple[_Step, ...]


@dataclass
class _Builder:
    """Attributes:
    dimensions: of the patterns, and behind the steps of the part that was begun.
    """

    compiled: Any
    as_lists: bool
    given_dimensions: int
    is_pool: bool = False
    dimensions: int = 0

    def begin(self, steps: _Steps, *, fills_gaps: bool) -> None:
        """Begin a part behind these steps.

        Args:
            fills_gaps: whether it knows zeros for gaps where patterns are lists.
        """
        transforms = [step.transform for step in steps if step.transform is not None]
        if self.as_lists and (len(transforms) > 1 or not all(_fits_lists(each, fills_gaps) for each in transforms)):
            raise UnplannedError
        self.compiled.begin()
        self.dimensions = self.given_dimensions
        for step in steps:
            if set(step.sizes) - {self.dimensions}:
                raise _misfit("an offset or a gain", step.sizes, (self.dimensions,))
            kind = kind_of(step.transform)
            if kind == "SelectTransform" and not all(0 <= each < self.dimensions for each in step.transform.places):
                raise ShapeError(f"the columns that the model selects must be from 0 to {self.dimensions - 1}.")
            step.add(self.compiled)
            if kind == "DifferenceTransform":
                self.dimensions = max(1, self.dimensions - 1)
            elif kind == "SelectTransform":
                self.dimensions = len(step.transform.places)

    def sized(self, values: Any, *shape: int) -> NDArray[np.float64]:
        """Numbers in double precision. A file may be bent, and the compiled recall reads as many as there must be."""
        found = _double(values)
        if found.shape != shape:
            raise _misfit("a part", found.shape, shape)
        return found


def _fits_lists(transform: Any, fills_gaps: bool) -> bool:
    """True if what was not observed stays so, or becomes a zero where that says nothing."""
    missing = getattr(transform, "missing", None)
    is_in_place = kind_of(transform) not in ("DifferenceTransform", "SelectTransform")
    return is_in_place and (missing is None or (fills_gaps and missing == 0))


def _add(similarity: Any, builder: _Builder, steps: _Steps, weight: float) -> None:
    add = ADDED.get(kind_of(similarity))
    if add is None:
        raise UnplannedError
    add(similarity, builder, steps, weight)


def _add_metric(similarity: Any, builder: _Builder, steps: _Steps, weight: float) -> None:
    builder.begin(steps, fills_gaps=True)
    if not builder.compiled.add_metric(MEASURES[kind_of(similarity)], weight):
        raise UnplannedError


def _add_pool(similarity: Any, builder: _Builder, steps: _Steps, weight: float) -> None:
    shares = to_numpy(similarity.weights)
    if builder.is_pool or not similarity.compares_patterns or not (shares > 0).any():
        raise UnplannedError  # of pools in pools each has its own worst scores
    builder.is_pool = True
    for share, member in zip(shares.tolist(), similarity.members, strict=True):
        _add(member, builder, steps, share)


def _add_aligned(similarity: Any, builder: _Builder, steps: _Steps, weight: float) -> None:
    _add(similarity.base, builder, (*steps, _moved(similarity.offset, similarity.gain)), weight)


def _add_debiased(similarity: Any, builder: _Builder, steps: _Steps, weight: float) -> None:
    moved = _moved(similarity.bias, np.ones(len(similarity.bias)))
    _add(similarity.base, builder, (*steps, moved), weight)


def _add_transformed(similarity: Any, builder: _Builder, steps: _Steps, weight: float) -> None:
    _add(similarity.base, builder, (*steps, _transformed(similarity.transform)), weight)


def _add_additive(similarity: Any, builder: _Builder, steps: _Steps, weight: float) -> None:
    if similarity.pattern_knots > MOST_KNOTS:
        raise UnplannedError
    builder.begin(steps, fills_gaps=False)
    asked, stored, rank = similarity.query_knots, similarity.pattern_knots, similarity.rank
    if min(asked, stored) < 2 or rank < 1:
        raise _misfit("tables", (rank, asked, stored), (1, 2, 2))
    d = builder.dimensions
    builder.compiled.add_tables(
        weight,
        builder.sized(similarity.query_places, d, asked),
        builder.sized(similarity.pattern_places, d, stored),
        builder.sized(similarity.mixing, d, rank),
        builder.sized(similarity.tables, rank, asked, stored),
    )
    _add_gaps(similarity.missingness, builder, float(builder.sized(similarity.gap_weight)))


def _add_likelihood(similarity: Any, builder: _Builder, steps: _Steps, weight: float) -> None:
    variant = similarity.variant
    if kind_of(variant) != "MixtureVariant":
        raise UnplannedError
    builder.begin(steps, fills_gaps=False)
    numbers = [variant.gain, variant.bias, variant.std, variant.outlier_rate, variant.center, variant.scale]
    low, high = builder.sized(variant.outliers.ends, 2).tolist()
    d, bins, quantiles = builder.dimensions, len(variant.outliers.log_density), variant.population.shape[-1]
    if not bins or not quantiles:
        raise _misfit("a density", (bins, quantiles), (1, 1))
    builder.compiled.add_mixture(
        weight,
        np.stack([builder.sized(each, d) for each in numbers]),
        builder.sized(variant.population, d, quantiles),
        builder.sized(variant.outliers.log_density, bins),
        low,
        high,
        bool(variant.signs),
    )
    _add_gaps(variant.missingness, builder, 1.0)


def _add_gaps(missingness: Any, builder: _Builder, weight: float) -> None:
    d, levels = builder.dimensions, missingness.edges.shape[-1] + 1
    base, shifts = builder.sized(missingness.base, d), builder.sized(missingness.shifts, levels + 1)
    edges = np.require(builder.sized(missingness.edges, d, levels - 1), np.float32, ["C", "A"])
    if not shifts.any():  # gaps say nothing
        return
    if levels >= MOST_KNOTS:
        raise UnplannedError
    builder.compiled.add_silence(weight, base, edges, shifts)


ADDED: Final[dict[str, Callable[[Any, _Builder, _Steps, float], None]]] = {
    **dict.fromkeys(MEASURES, _add_metric),
    "PooledSimilarity": _add_pool,
    "AlignedSimilarity": _add_aligned,
    "DebiasedSimilarity": _add_debiased,
    "TransformedSimilarity": _add_transformed,
    "AdditiveSimilarity": _add_additive,
    "EvidenceSimilarity": _add_likelihood,
    "LikelihoodSimilarity": _add_likelihood,
}


def _moved(offset: Any, gain: Any) -> _Step:
    numbers = _double(offset), _double(gain)
    return _Step(lambda compiled: compiled.move(*numbers), sizes=tuple(each.size for each in numbers))


def _transformed(transform: Any) -> _Step:
    kind = kind_of(transform)
    if kind == "PowerTransform":
        return _Step(
            lambda compiled: compiled.transform(RAISE, exponent=transform.exponent, **_range(transform)), transform
        )
    if kind == "LogTransform":
        return _Step(lambda compiled: compiled.transform(LOGARITHM, **_range(transform)), transform)
    if kind == "SelectTransform":
        places = list(transform.places)
        return _Step(lambda compiled: compiled.select(places), transform)
    way = {"SNVTransform": VARIATE, "DifferenceTransform": DIFFERENCE}.get(kind)
    if way is None:
        raise UnplannedError
    return _Step(lambda compiled: compiled.transform(way), transform)


def _range(transform: Any) -> dict[str, float]:
    missing = np.nan if transform.missing is None else transform.missing
    return {"low": transform.low, "high": transform.high, "missing": missing}


def _misfit(name: str, found: tuple[int, ...], wanted: tuple[int, ...]) -> ShapeError:
    return ShapeError(f"{name} of the model has the shape {found}, not {wanted}.")


def _double(values: Any) -> NDArray[np.float64]:
    return np.require(to_numpy(values), np.float64, ["C", "A"])
