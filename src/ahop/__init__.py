"""ahop: associative memory that learns how queries get corrupted."""

from importlib import import_module
from typing import TYPE_CHECKING

from ahop._core.addresses import Addresses
from ahop._core.optional import is_of_fit
from ahop.errors import MissingPackageError

if TYPE_CHECKING:
    __version__: str
    from ahop import (
        client,
        datasets,
        energies,
        errors,
        estimators,
        fitting,
        modulations,
        nn,
        plots,
        separations,
        service,
        similarities,
        transforms,
        variants,
    )
    from ahop._core.error_columns import with_errors
    from ahop.fitting.adapt import adapt
    from ahop.fitting.fit import fit
    from ahop.memory import likelihood, posteriors, reference, report, unknown
    from ahop.memory.load import load
    from ahop.memory.memory import AssociativeMemory
    from ahop.memory.model import Model
    from ahop.memory.recall import Recall
    from ahop.memory.report import FitReport
    from ahop.memory.runtime import Runtime, open_memory
    from ahop.nn import compat
    from ahop.operate import adapters, attaching, linking, watching
    from ahop.operate.asking import ask
    from ahop.operate.attaching.attach import attach
    from ahop.operate.linking.links import link
    from ahop.operate.policies import policy
    from ahop.operate.watching import watch
    from ahop.paper import capacity, criteria, dynamics, zoo
    from ahop.paper.criteria import evaluate
    from ahop.paper.dynamics.trajectory import iterate
    from ahop.scale import cluster, indexes, liftings, stores
    from ahop.scale.indexes.build import index
    from ahop.scale.liftings.lift import lift
    from ahop.scale.stores.create import create_store
    from ahop.scale.stores.store import open_store
    from ahop.separations.softmax import Softmax
    from ahop.similarities.adaptive import AdaptiveSimilarity
    from ahop.similarities.dot import DotSimilarity
    from ahop.similarities.euclidean import EuclideanSimilarity
    from ahop.variants.base import Pairs
    from ahop.variants.mixed import MixedVariant
    from ahop.variants.noisy import NoisyVariant

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
    "Runtime",
    "Softmax",
    "adapt",
    "adapters",
    "ask",
    "attach",
    "attaching",
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
    "open_memory",
    "open_store",
    "plots",
    "policy",
    "posteriors",
    "reference",
    "report",
    "separations",
    "service",
    "similarities",
    "stores",
    "transforms",
    "unknown",
    "variants",
    "watch",
    "watching",
    "with_errors",
    "zoo",
]

# Everything loads when it is asked for, torch too: who only wants the version, or help, does not wait.
_LATER = {
    "AdaptiveSimilarity": "ahop.similarities.adaptive",
    "AssociativeMemory": "ahop.memory.memory",
    "DotSimilarity": "ahop.similarities.dot",
    "EuclideanSimilarity": "ahop.similarities.euclidean",
    "FitReport": "ahop.memory.report",
    "MixedVariant": "ahop.variants.mixed",
    "Model": "ahop.memory.model",
    "NoisyVariant": "ahop.variants.noisy",
    "Pairs": "ahop.variants.base",
    "Recall": "ahop.memory.recall",
    "Runtime": "ahop.memory.runtime",
    "Softmax": "ahop.separations.softmax",
    "adapt": "ahop.fitting.adapt",
    "ask": "ahop.operate.asking",
    "attach": "ahop.operate.attaching.attach",
    "create_store": "ahop.scale.stores.create",
    "evaluate": "ahop.paper.criteria",
    "fit": "ahop.fitting.fit",
    "index": "ahop.scale.indexes.build",
    "iterate": "ahop.paper.dynamics.trajectory",
    "lift": "ahop.scale.liftings.lift",
    "link": "ahop.operate.linking.links",
    "load": "ahop.memory.load",
    "open_memory": "ahop.memory.runtime",
    "open_store": "ahop.scale.stores.store",
    "policy": "ahop.operate.policies",
    "watch": "ahop.operate.watching",
    "with_errors": "ahop._core.error_columns",
}
# Modules of the rooms that are reached from the top of the package.
_ROOMS = {
    "adapters": "operate",
    "attaching": "operate",
    "capacity": "paper",
    "cluster": "scale",
    "compat": "nn",
    "criteria": "paper",
    "dynamics": "paper",
    "indexes": "scale",
    "liftings": "scale",
    "likelihood": "memory",
    "linking": "operate",
    "posteriors": "memory",
    "reference": "memory",
    "report": "memory",
    "stores": "scale",
    "unknown": "memory",
    "watching": "operate",
    "zoo": "paper",
}
Addresses({f"ahop.{name}": f"ahop.{room}.{name}" for name, room in _ROOMS.items()}).install()


def __getattr__(name: str) -> object:
    if name == "__version__":
        return globals().setdefault(name, _version())
    try:
        if name in _LATER:
            found = getattr(import_module(_LATER[name]), name)
            globals()[name] = found  # the next time nobody is asked
            return found
        if name in __all__:
            return import_module(f"ahop.{_ROOMS[name]}.{name}" if name in _ROOMS else f"ahop.{name}")
    except ModuleNotFoundError as error:
        if not is_of_fit(error):
            raise
        raise MissingPackageError(f"`ahop.{name}` needs PyTorch: `pip install 'ahop[fit]'`.") from error
    raise AttributeError(f"module 'ahop' has no attribute {name!r}")


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version  # half of the time that all else here takes

    try:
        return version("ahop")
    except PackageNotFoundError:  # a checkout that was never installed
        return "0.0.0"


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
