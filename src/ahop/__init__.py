"""ahop: associative memory that learns how queries get corrupted."""

from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ahop import (
        client,
        cluster,
        compat,
        criteria,
        datasets,
        dynamics,
        energies,
        errors,
        estimators,
        fitting,
        indexes,
        liftings,
        likelihood,
        linking,
        modulations,
        nn,
        plots,
        posteriors,
        preprocessing,
        reference,
        report,
        separations,
        service,
        similarities,
        stores,
        transforms,
        unknown,
        variants,
        watching,
        zoo,
    )
    from ahop.asking import ask
    from ahop.criteria import evaluate
    from ahop.dynamics.trajectory import iterate
    from ahop.fitting.adapt import adapt
    from ahop.fitting.fit import fit
    from ahop.indexes.build import index
    from ahop.liftings.lift import lift
    from ahop.linking.link import link
    from ahop.memory import AssociativeMemory
    from ahop.model import Model
    from ahop.policies import policy
    from ahop.recaller import Recall
    from ahop.report import FitReport
    from ahop.saving.load import load
    from ahop.separations.softmax import Softmax
    from ahop.similarities.adaptive import AdaptiveSimilarity
    from ahop.similarities.dot import DotSimilarity
    from ahop.similarities.euclidean import EuclideanSimilarity
    from ahop.stores.create import create_store
    from ahop.stores.store import open_store
    from ahop.variants.base import Pairs
    from ahop.variants.mixed import MixedVariant
    from ahop.variants.noisy import NoisyVariant
    from ahop.watching import watch

try:
    __version__ = version("ahop")
except PackageNotFoundError:  # a checkout that was never installed
    __version__ = "0.0.0"

__all__ = [
    "AdaptiveSimilarity",
    "AssociativeMemory",
    "DotSimilarity",
    "EuclideanSimilarity",
    "FitReport",
    "MixedVariant",
    "Model",
    "NoisyVariant",
    "Pairs",
    "Recall",
    "Softmax",
    "adapt",
    "ask",
    "capacity",
    "client",
    "cluster",
    "compat",
    "create_store",
    "criteria",
    "datasets",
    "dynamics",
    "energies",
    "errors",
    "estimators",
    "evaluate",
    "fit",
    "fitting",
    "index",
    "indexes",
    "iterate",
    "lift",
    "liftings",
    "likelihood",
    "link",
    "linking",
    "load",
    "modulations",
    "nn",
    "open_store",
    "plots",
    "policy",
    "posteriors",
    "preprocessing",
    "reference",
    "report",
    "scorer",
    "separations",
    "service",
    "similarities",
    "stores",
    "transforms",
    "unknown",
    "variants",
    "watch",
    "watching",
    "zoo",
]

# Everything loads when it is asked for, torch too: who only wants the version, or help, does not wait.
_LATER = {
    "AdaptiveSimilarity": "ahop.similarities.adaptive",
    "AssociativeMemory": "ahop.memory",
    "DotSimilarity": "ahop.similarities.dot",
    "EuclideanSimilarity": "ahop.similarities.euclidean",
    "FitReport": "ahop.report",
    "MixedVariant": "ahop.variants.mixed",
    "Model": "ahop.model",
    "NoisyVariant": "ahop.variants.noisy",
    "Pairs": "ahop.variants.base",
    "Recall": "ahop.recaller",
    "Softmax": "ahop.separations.softmax",
    "adapt": "ahop.fitting.adapt",
    "ask": "ahop.asking",
    "create_store": "ahop.stores.create",
    "evaluate": "ahop.criteria",
    "fit": "ahop.fitting.fit",
    "index": "ahop.indexes.build",
    "iterate": "ahop.dynamics.trajectory",
    "lift": "ahop.liftings.lift",
    "link": "ahop.linking.link",
    "load": "ahop.saving.load",
    "open_store": "ahop.stores.store",
    "policy": "ahop.policies",
    "watch": "ahop.watching",
}


def __getattr__(name: str) -> object:
    if name in _LATER:
        found = getattr(import_module(_LATER[name]), name)
        globals()[name] = found  # the next time nobody is asked
        return found
    if name in __all__:
        return import_module(f"ahop.{name}")
    raise AttributeError(f"module 'ahop' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
