"""Plans: a model and its patterns laid out for the compiled recall, where it knows all of the model's parts."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import singledispatch
from typing import Any, Final, TypeAlias, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import Module

from ahop._core.kernels import native
from ahop._core.kernels.native import MOST_DIMENSIONS
from ahop._core.missingness import Missingness
from ahop._core.typing import Patterns
from ahop.memory.likelihood import EvidenceSimilarity, LikelihoodSimilarity
from ahop.memory.model import Model
from ahop.memory.reference import Reference
from ahop.modulations.unmodulated import Unmodulated
from ahop.separations.softmax import Softmax
from ahop.similarities.additive import AdditiveSimilarity
from ahop.similarities.aligned import AlignedSimilarity
from ahop.similarities.base import Similarity
from ahop.similarities.cosine import CosineSimilarity
from ahop.similarities.debiased import DebiasedSimilarity
from ahop.similarities.dot import DotSimilarity
from ahop.similarities.euclidean import EuclideanSimilarity
from ahop.similarities.manhattan import ManhattanSimilarity
from ahop.similarities.pooled import PooledSimilarity
from ahop.similarities.sorensen import SorensenSimilarity
from ahop.similarities.transformed import TransformedSimilarity
from ahop.transforms.base import Transform
from ahop.transforms.difference import DifferenceTransform
from ahop.transforms.log import LogTransform
from ahop.transforms.power import PowerTransform
from ahop.transforms.snv import SNVTransform
from ahop.variants.mixture import MixtureVariant

# As the compiled plan numbers them.
MEASURES: Final[dict[type[Similarity], int]] = {
    DotSimilarity: 0,
    CosineSimilarity: 1,
    EuclideanSimilarity: 2,
    ManhattanSimilarity: 3,
    SorensenSimilarity: 4,
}
RAISE, LOGARITHM, VARIATE, DIFFERENCE = 1, 2, 3, 4
LEAVES = (*MEASURES, AdditiveSimilarity, EvidenceSimilarity, LikelihoodSimilarity)
# Of the attributes of a module, those that may change its scores.
PARTS = (int, float, Tensor, Module)
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

    def rank(self, queries: NDArray[np.float32], k: int, threads: int) -> "Answered | None":
        """Rows (b, k), posterior (b, k) and how likely the origin is unknown (b,); None beyond single precision."""
        ids = np.empty((len(queries), k), dtype=np.int64)
        posterior, unknown = np.empty(ids.shape, dtype=np.float32), np.empty(len(ids), dtype=np.float32)
        if not self.compiled.rank(np.require(queries, requirements=["C", "A"]), ids, posterior, unknown, threads):
            return None
        return Answered(ids, posterior, unknown if self.has_detector else None)


@final
@dataclass(frozen=True)
class Answered:
    """Best first."""

    ids: NDArray[np.int64]
    posterior: NDArray[np.float32]
    unknown: NDArray[np.float32] | None


def plan_of(model: Model, patterns: Patterns, log_prior: Tensor | None) -> Plan | None:
    """Lay out the patterns, which are modulated; None where torch must answer."""
    if not hasattr(native.native, "Plan") or patterns.dtype != torch.float32 or patterns.device.type != "cpu":
        return None  # built without a compiler, or before there were plans
    if type(model.modulation) is not Unmodulated or len(patterns) == 0:
        return None
    if not model.weighs_by_mass or not model.beta < LARGEST_BETA or patterns.shape[1] > MOST_DIMENSIONS:
        return None
    stored = patterns.detach().contiguous().numpy()
    observed = 1 - float(np.isnan(stored[:: 1 + len(stored) // SAMPLED]).mean())
    parts = sum(1 for each in model.similarity.modules() if type(each) in LEAVES)
    for as_lists in [True, False] if observed < FEW_OBSERVED else [False]:
        if parts * stored.nbytes * (2 * observed if as_lists else 1) > MOST_BYTES:
            continue
        try:
            with torch.no_grad():
                return _planned(model, stored, log_prior, as_lists)
        except UnplannedError:
            continue
    return None


def _planned(model: Model, stored: NDArray[np.float32], log_prior: Tensor | None, as_lists: bool) -> Plan:
    assert native.native is not None
    builder = _Builder(native.native.Plan(stored, as_lists), as_lists)
    _add(model.similarity, builder, (), 1.0)
    detector = None
    if model.detector is not None:
        numbers = [model.detector.center, model.detector.scale, model.detector.slopes, model.detector.offset[None]]
        detector = _double(torch.cat(numbers)[None])
    builder.compiled.finish(
        builder.is_pool,
        float(model.beta),
        model.separation.floor if isinstance(model.separation, Softmax) else 0.0,
        None if log_prior is None else _double(log_prior),
        detector,
        0.0 if model.detector is None else model.detector.log_prior_odds,
    )
    return Plan(builder.compiled, model.detector is not None)


@dataclass(frozen=True)
class _Step:
    """Steps applied to queries first, and to the patterns too if they are transforms."""

    add: Callable[[Any], None]
    transform: Transform | None = None


_Steps: TypeAlias = tuple[_Step, ...]


@dataclass
class _Builder:
    compiled: Any
    as_lists: bool
    is_pool: bool = False

    def begin(self, steps: _Steps, *, fills_gaps: bool) -> None:
        """Begin a part behind these steps.

        Args:
            fills_gaps: whether it knows zeros for gaps where patterns are lists.
        """
        transforms = [step.transform for step in steps if step.transform is not None]
        if self.as_lists and (len(transforms) > 1 or not all(_fits_lists(each, fills_gaps) for each in transforms)):
            raise UnplannedError
        self.compiled.begin()
        for step in steps:
            step.add(self.compiled)


def _fits_lists(transform: Transform, fills_gaps: bool) -> bool:
    """True if what was not observed stays so, or becomes a zero where that says nothing."""
    missing = getattr(transform, "missing", None)
    return not isinstance(transform, DifferenceTransform) and (missing is None or (fills_gaps and missing == 0))


@singledispatch
def _add(similarity: Similarity, builder: _Builder, steps: _Steps, weight: float) -> None:
    measure = MEASURES.get(type(similarity))
    if measure is None:
        raise UnplannedError
    builder.begin(steps, fills_gaps=True)
    if not builder.compiled.add_metric(measure, weight):
        raise UnplannedError


@_add.register
def _(similarity: PooledSimilarity, builder: _Builder, steps: _Steps, weight: float) -> None:
    if builder.is_pool or not similarity.compares_patterns or not bool((similarity.weights > 0).any()):
        raise UnplannedError  # of pools in pools each has its own worst scores
    builder.is_pool = True
    for share, member in zip(similarity.weights.tolist(), similarity.parts(), strict=True):
        _add(member, builder, steps, share)


@_add.register
def _(similarity: AlignedSimilarity, builder: _Builder, steps: _Steps, weight: float) -> None:
    _add(similarity.base, builder, (*steps, _moved(similarity.offset, similarity.gain)), weight)


@_add.register
def _(similarity: DebiasedSimilarity, builder: _Builder, steps: _Steps, weight: float) -> None:
    moved = _moved(similarity.bias, torch.ones_like(similarity.bias))
    _add(similarity.base, builder, (*steps, moved), weight)


@_add.register
def _(similarity: TransformedSimilarity, builder: _Builder, steps: _Steps, weight: float) -> None:
    _add(similarity.base, builder, (*steps, _transformed(similarity.transform)), weight)


@_add.register
def _(similarity: AdditiveSimilarity, builder: _Builder, steps: _Steps, weight: float) -> None:
    if similarity.pattern_knots > MOST_KNOTS:
        raise UnplannedError
    builder.begin(steps, fills_gaps=False)
    places = similarity.query_places, similarity.pattern_places, similarity.mixing, similarity.tables
    builder.compiled.add_tables(weight, *(_double(each) for each in places))
    _add_gaps(similarity.missingness, builder, float(similarity.gap_weight))


@_add.register(EvidenceSimilarity)
@_add.register(LikelihoodSimilarity)
def _(similarity: EvidenceSimilarity | LikelihoodSimilarity, builder: _Builder, steps: _Steps, weight: float) -> None:
    variant = similarity.variant
    if not isinstance(variant, MixtureVariant):
        raise UnplannedError
    builder.begin(steps, fills_gaps=False)
    numbers = [variant.gain, variant.bias, variant.std, variant.outlier_rate, variant.center, variant.scale]
    low, high = variant.outliers.ends.tolist()
    density = _double(variant.outliers.log_density)
    builder.compiled.add_mixture(
        weight, _double(torch.stack(numbers)), _double(variant.population), density, low, high, variant.signs
    )
    _add_gaps(variant.missingness, builder, 1.0)


def _add_gaps(missingness: Missingness, builder: _Builder, weight: float) -> None:
    if not missingness.is_evidence:
        return
    if missingness.levels >= MOST_KNOTS:
        raise UnplannedError
    edges = missingness.edges.float().contiguous().numpy()
    builder.compiled.add_silence(weight, _double(missingness.base), edges, _double(missingness.shifts))


def _moved(offset: Tensor, gain: Tensor) -> _Step:
    return _Step(lambda compiled: compiled.move(_double(offset), _double(gain)))


def _transformed(transform: Transform) -> _Step:
    if isinstance(transform, PowerTransform):
        return _Step(
            lambda compiled: compiled.transform(RAISE, exponent=transform.exponent, **_range(transform)), transform
        )
    if isinstance(transform, LogTransform):
        return _Step(lambda compiled: compiled.transform(LOGARITHM, **_range(transform)), transform)
    way = {SNVTransform: VARIATE, DifferenceTransform: DIFFERENCE}.get(type(transform))
    if way is None:
        raise UnplannedError
    return _Step(lambda compiled: compiled.transform(way), transform)


def _range(transform: PowerTransform | LogTransform) -> dict[str, float]:
    missing = np.nan if transform.missing is None else transform.missing
    return {"low": transform.low, "high": transform.high, "missing": missing}


def _double(values: Tensor) -> NDArray[np.float64]:
    return np.require(values.detach().double().numpy(), requirements=["C", "A"])


@final
class Plans:
    """The plan of a model and its patterns, made at its first use and anew where either has changed in place."""

    def __init__(self) -> None:
        self._kept: _Kept | None = None

    def __reduce__(self) -> tuple[type["Plans"], tuple[()]]:
        return Plans, ()  # a copy makes its own

    @property
    def plan(self) -> Plan | None:
        """The one that answered last."""
        return None if self._kept is None else self._kept.plan

    def of(self, model: Model, patterns: Patterns, log_prior: Tensor | None) -> Plan | None:
        """The plan; None where torch answers."""
        if torch.compiler.is_compiling():
            return None
        kept = self._kept  # another thread may make one too
        if kept is None or not kept.is_fresh():
            kept = self._kept = _Kept(model, patterns, log_prior)
        return kept.plan


class _Kept:
    """A plan, and the state of all that it was made from."""

    def __init__(self, model: Model, patterns: Patterns, log_prior: Tensor | None) -> None:
        self._places = _places(model)
        tensors = [patterns, *([] if log_prior is None else [log_prior]), *model.buffers(), *model.parameters()]
        is_counted = not any(each.is_inference() for each in tensors)  # else nobody counts what is done to them
        self._versions = [(each, each._version) for each in tensors] if is_counted else []
        self.plan = plan_of(model, patterns, log_prior) if is_counted else None

    def is_fresh(self) -> bool:
        return all(found.get(name) is value for found, name, value in self._places) and all(
            tensor._version == seen for tensor, seen in self._versions
        )


def _places(model: Module) -> list[tuple[dict[str, Any], str, Any]]:
    """Parts and numbers of the model."""
    found: list[tuple[dict[str, Any], str, Any]] = []
    for module in model.modules():
        if isinstance(module, Reference):  # answers nothing
            continue
        for kept in (vars(module), module._parameters, module._buffers, module._modules):
            found += [(kept, name, each) for name, each in kept.items() if isinstance(each, PARTS)]
    return found
