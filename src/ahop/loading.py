"""Reading a memory back: names in a file become parts again, from a closed list."""

import os
from collections.abc import Mapping
from typing import Any

import torch

from ahop._archive import read_archive
from ahop._checks import check_kind
from ahop._component import Component
from ahop._labels import from_text
from ahop.energies.base import Energy
from ahop.energies.free import FreeEnergy
from ahop.energies.quadratic import QuadraticEnergy
from ahop.errors import AhopError, FileFormatError, InvalidValueError
from ahop.likelihood import EvidenceSimilarity, LikelihoodSimilarity
from ahop.memory import AssociativeMemory
from ahop.modulations.base import Modulation
from ahop.modulations.kernel import KernelModulation
from ahop.modulations.unmodulated import Unmodulated
from ahop.separations.argmax import Argmax
from ahop.separations.base import Separation
from ahop.separations.entmax import Entmax
from ahop.separations.exponential import Exponential
from ahop.separations.power import Power
from ahop.separations.softmax import Softmax
from ahop.separations.sparsemax import Sparsemax
from ahop.similarities.adaptive import AdaptiveSimilarity
from ahop.similarities.additive import AdditiveSimilarity
from ahop.similarities.aligned import AlignedSimilarity
from ahop.similarities.base import Similarity
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

# What building from words that make no sense can raise.
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


def load(path: str | os.PathLike[str]) -> AssociativeMemory:
    """The memory that `memory.save(path)` wrote, bit for bit."""
    manifest, tensors = read_archive(path)
    labels = tensors.pop("labels", None)
    try:
        # Shapes alone, until the tensors of the file take their places: no number in it can ask for memory.
        with torch.device("meta"):
            parts = {name: build(part) for name, part in manifest["memory"].items()}
            groups = manifest.get("groups", {"names": [], "similarities": []})
            kinds = [check_kind("groups", build(each), Similarity) for each in groups["similarities"]]
        memory = AssociativeMemory(
            tensors["patterns"],
            check_kind("similarity", parts["similarity"], Similarity),
            check_kind("separation", parts["separation"], Separation),
            check_kind("modulation", parts["modulation"], Modulation),
            None if parts["energy"] is None else check_kind("energy", parts["energy"], Energy),
            tensors.get("log_prior"),
        )
        if parts.get("detector") is not None:
            memory.detector = check_kind("detector", parts["detector"], UnknownDetector)
        memory.group_names = [str(name) for name in groups["names"]]
        if len(kinds) != len(memory.group_names):
            raise InvalidValueError("as many group names as group similarities are needed.")
        memory.by_group.extend(kinds)
        memory.report = manifest.get("report")
        memory.labels = None if labels is None else from_text(labels, len(memory))
        memory.dimensions = _names(manifest.get("dimensions"), memory.patterns.shape[1])
        memory.load_state_dict(tensors, assign=True)
    except FAILURES as error:
        raise FileFormatError(f"`{path}` does not describe a memory that this release can build: {error}") from error
    return memory


def _names(given: Any, count: int) -> tuple[str, ...] | None:
    """The names of the dimensions, if they have any."""
    if given is None:
        return None
    if not isinstance(given, list) or not all(isinstance(each, str) for each in given):
        raise InvalidValueError("the names of the dimensions must be words.")
    if len(given) != count or len(set(given)) != count:
        raise InvalidValueError(f"the names of the dimensions must be {count}, all different.")
    return tuple(given)


def build(described: Any, components: Mapping[str, type[Component]] = COMPONENTS) -> Any:
    """The part that `describe` put into words; they can name the given classes, and nothing else."""
    if isinstance(described, list):
        return [build(item, components) for item in described]
    if isinstance(described, dict):
        arguments = {name: build(value, components) for name, value in described["arguments"].items()}
        return components[described["component"]](**arguments)
    return described
