"""The parts that a file can name: a closed list, and what a caller adds to it."""

from collections.abc import Mapping, Sequence
from typing import Any

from ahop._component import Component
from ahop.energies.free import FreeEnergy
from ahop.energies.quadratic import QuadraticEnergy
from ahop.errors import AhopError, InvalidTypeError, InvalidValueError
from ahop.likelihood import EvidenceSimilarity, LikelihoodSimilarity
from ahop.modulations.kernel import KernelModulation
from ahop.modulations.unmodulated import Unmodulated
from ahop.separations.argmax import Argmax
from ahop.separations.entmax import Entmax
from ahop.separations.exponential import Exponential
from ahop.separations.power import Power
from ahop.separations.softmax import Softmax
from ahop.separations.sparsemax import Sparsemax
from ahop.similarities.adaptive import AdaptiveSimilarity
from ahop.similarities.additive import AdditiveSimilarity
from ahop.similarities.aligned import AlignedSimilarity
from ahop.similarities.correlation import CorrelationSimilarity
from ahop.similarities.cosine import CosineSimilarity
from ahop.similarities.debiased import DebiasedSimilarity
from ahop.similarities.dot import DotSimilarity
from ahop.similarities.euclidean import EuclideanSimilarity
from ahop.similarities.footprint import FootprintSimilarity
from ahop.similarities.isolated import IsolatedSimilarity
from ahop.similarities.manhattan import ManhattanSimilarity
from ahop.similarities.match import MatchSimilarity
from ahop.similarities.pooled import PooledSimilarity
from ahop.similarities.sorensen import SorensenSimilarity
from ahop.similarities.transformed import TransformedSimilarity
from ahop.similarities.unified import UnifiedSimilarity
from ahop.transforms.difference import DifferenceTransform
from ahop.transforms.log import LogTransform
from ahop.transforms.power import PowerTransform
from ahop.transforms.rank import RankTransform
from ahop.transforms.snv import SNVTransform
from ahop.unknown import UnknownDetector
from ahop.variants.biased import BiasedVariant
from ahop.variants.composed import ComposedVariant
from ahop.variants.masked import MaskedVariant
from ahop.variants.mixed import MixedVariant
from ahop.variants.mixture import MixtureVariant
from ahop.variants.noisy import NoisyVariant
from ahop.variants.nuisance import NuisanceVariant

# What building from a description that makes no sense can raise.
FAILURES = (AhopError, ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError)

# A file can name these and nothing else: no import, no attribute look-up, no code from outside.
COMPONENTS: dict[str, type[Component]] = {
    kind.__name__: kind
    for kind in (
        *(DotSimilarity, EuclideanSimilarity, ManhattanSimilarity, MatchSimilarity),
        *(FootprintSimilarity, AdaptiveSimilarity, IsolatedSimilarity, UnifiedSimilarity, LikelihoodSimilarity),
        *(DebiasedSimilarity, AdditiveSimilarity, EvidenceSimilarity),
        *(CosineSimilarity, CorrelationSimilarity, SorensenSimilarity),
        *(TransformedSimilarity, AlignedSimilarity, PooledSimilarity),
        *(SNVTransform, DifferenceTransform, PowerTransform, LogTransform, RankTransform),
        *(Power, Exponential, Softmax, Sparsemax, Entmax, Argmax),
        *(Unmodulated, KernelModulation),
        *(NoisyVariant, MaskedVariant, BiasedVariant, ComposedVariant, MixedVariant, MixtureVariant, NuisanceVariant),
        *(FreeEnergy, QuadraticEnergy, UnknownDetector),
    )
}


# More parts than any memory has; a file with more is not ours.
MOST_COMPONENTS = 1000


def registry(components: Sequence[type[Component]] = ()) -> Mapping[str, type[Component]]:
    """All parts of ahop, and these classes of the caller's, by name."""
    for kind in components:
        if not (isinstance(kind, type) and issubclass(kind, Component)):
            raise InvalidTypeError(
                f"`components` must be classes of your own parts, such as a subclass of `Similarity`; got {kind!r}."
            )
        if kind.__name__ in COMPONENTS and COMPONENTS[kind.__name__] is not kind:
            raise InvalidValueError(f"`components` has a class {kind.__name__!r}, as ahop has one. Rename yours.")
    return {**COMPONENTS, **{kind.__name__: kind for kind in components}}


def build(described: Any, components: Mapping[str, type[Component]] = COMPONENTS) -> Any:
    """The part that `describe` made plain data of; it can name the given classes, and nothing else."""
    if _count(described) > MOST_COMPONENTS:
        raise InvalidValueError(f"more than {MOST_COMPONENTS} parts are described.")
    return _build(described, components)


def _build(described: Any, components: Mapping[str, type[Component]]) -> Any:
    if isinstance(described, list):
        return [_build(item, components) for item in described]
    if isinstance(described, dict):
        arguments = {name: _build(value, components) for name, value in described["arguments"].items()}
        return components[described["component"]](**arguments)
    return described


def _count(described: Any) -> int:
    if isinstance(described, list):
        return sum(_count(item) for item in described if isinstance(item, list | dict))
    if isinstance(described, dict):
        return 1 + sum(_count(item) for item in described.values() if isinstance(item, list | dict))
    return 0
