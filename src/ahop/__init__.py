"""ahop: associative memory that learns how queries get corrupted."""

from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

from ahop import plots, preprocessing, zoo
from ahop.criteria import (
    Evaluation,
    bayes_accuracy,
    correctly_retrieved,
    epsilon_retrieved,
    evaluate,
    retrieval_accuracy,
)
from ahop.dynamics.debiased import DebiasedReadout
from ahop.dynamics.descent import GradientDescent
from ahop.dynamics.readout import Readout
from ahop.dynamics.sign import SignDynamics
from ahop.dynamics.trajectory import Trajectory, iterate
from ahop.energies.free import FreeEnergy
from ahop.energies.quadratic import QuadraticEnergy
from ahop.errors import AhopError
from ahop.likelihood import EvidenceSimilarity, LikelihoodSimilarity
from ahop.memory import AssociativeMemory
from ahop.model import Model
from ahop.modulations.kernel import KernelModulation
from ahop.modulations.unmodulated import Unmodulated
from ahop.posteriors import ClassMass
from ahop.recaller import Recall
from ahop.report import Corruption, FitReport, Member, SolverReport, Trial
from ahop.saving.load import load
from ahop.separations.argmax import Argmax
from ahop.separations.entmax import Entmax
from ahop.separations.exponential import Exponential
from ahop.separations.power import Power
from ahop.separations.softmax import Softmax
from ahop.separations.sparsemax import Sparsemax
from ahop.similarities.adaptive import AdaptiveSimilarity
from ahop.similarities.additive import AdditiveSimilarity
from ahop.similarities.aligned import AlignedSimilarity
from ahop.similarities.callable import CallableSimilarity
from ahop.similarities.correlation import CorrelationSimilarity
from ahop.similarities.cosine import CosineSimilarity
from ahop.similarities.debiased import DebiasedSimilarity
from ahop.similarities.dot import DotSimilarity
from ahop.similarities.euclidean import EuclideanSimilarity
from ahop.similarities.footprint import FootprintSimilarity, footprint
from ahop.similarities.isolated import IsolatedSimilarity
from ahop.similarities.manhattan import ManhattanSimilarity
from ahop.similarities.match import MatchSimilarity
from ahop.similarities.optimal import optimal_for_biased, optimal_for_masked, optimal_for_noisy
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
from ahop.variants.base import Pairs
from ahop.variants.biased import BiasedVariant
from ahop.variants.composed import ComposedVariant
from ahop.variants.masked import MaskedVariant
from ahop.variants.mixed import MixedVariant
from ahop.variants.mixture import MixtureVariant
from ahop.variants.noisy import NoisyVariant
from ahop.variants.nuisance import NuisanceVariant
from ahop.variants.posterior import log_posterior

if TYPE_CHECKING:
    from ahop.fitting.fit import fit
    from ahop.fitting.solvers.adam import AdamSolver
    from ahop.fitting.solvers.kernel_separation import SeparationSolver
    from ahop.fitting.solvers.newton import ConvexSolver
    from ahop.indexes.build import index
    from ahop.liftings.lift import lift
    from ahop.stores.create import create_store
    from ahop.stores.store import open_store

try:
    __version__ = version("ahop")
except PackageNotFoundError:  # a checkout that was never installed
    __version__ = "0.0.0"

__all__ = [
    "AdamSolver",
    "AdaptiveSimilarity",
    "AdditiveSimilarity",
    "AhopError",
    "AlignedSimilarity",
    "Argmax",
    "AssociativeMemory",
    "BiasedVariant",
    "CallableSimilarity",
    "ClassMass",
    "ComposedVariant",
    "ConvexSolver",
    "CorrelationSimilarity",
    "Corruption",
    "CosineSimilarity",
    "DebiasedReadout",
    "DebiasedSimilarity",
    "DifferenceTransform",
    "DotSimilarity",
    "Entmax",
    "EuclideanSimilarity",
    "Evaluation",
    "EvidenceSimilarity",
    "Exponential",
    "FitReport",
    "FootprintSimilarity",
    "FreeEnergy",
    "GradientDescent",
    "IsolatedSimilarity",
    "KernelModulation",
    "LikelihoodSimilarity",
    "LogTransform",
    "ManhattanSimilarity",
    "MaskedVariant",
    "MatchSimilarity",
    "Member",
    "MixedVariant",
    "MixtureVariant",
    "Model",
    "NoisyVariant",
    "NuisanceVariant",
    "Pairs",
    "PooledSimilarity",
    "Power",
    "PowerTransform",
    "QuadraticEnergy",
    "RankTransform",
    "Readout",
    "Recall",
    "SNVTransform",
    "SeparationSolver",
    "SignDynamics",
    "Softmax",
    "SolverReport",
    "SorensenSimilarity",
    "Sparsemax",
    "Trajectory",
    "TransformedSimilarity",
    "Trial",
    "UnifiedSimilarity",
    "UnknownDetector",
    "Unmodulated",
    "bayes_accuracy",
    "correctly_retrieved",
    "create_store",
    "epsilon_retrieved",
    "evaluate",
    "fit",
    "footprint",
    "index",
    "iterate",
    "lift",
    "load",
    "log_posterior",
    "open_store",
    "optimal_for_biased",
    "optimal_for_masked",
    "optimal_for_noisy",
    "plots",
    "preprocessing",
    "retrieval_accuracy",
    "zoo",
]


def __getattr__(name: str) -> object:
    """What learns, searches and opens tables loads when it is asked for: who only recalls does not wait for it."""
    if name in ("fit", "AdamSolver", "ConvexSolver", "SeparationSolver"):
        from ahop.fitting import fit as fitting

        return getattr(fitting, name)
    if name == "index":
        from ahop.indexes.build import index

        return index
    if name == "lift":
        from ahop.liftings.lift import lift

        return lift
    if name in ("create_store", "open_store"):
        from ahop import stores

        return getattr(stores, name)
    raise AttributeError(f"module 'ahop' has no attribute {name!r}")
