"""Learning from pairs: which similarity suits them, and the coefficients of one that is given."""

import ahop._core.with_torch  # noqa: F401
from ahop.fitting.settings import (
    AdaptSettings,
    CandidatesSettings,
    GroupsSettings,
    MixtureSettings,
    PoolSettings,
    PosteriorSettings,
    SelectionSettings,
    Settings,
    UnlabeledSettings,
)
from ahop.fitting.solvers.adam import AdamSolver
from ahop.fitting.solvers.kernel_separation import SeparationSolver
from ahop.fitting.solvers.losses import separation_loss
from ahop.fitting.solvers.newton import ConvexSolver
from ahop.fitting.solvers.shrinkage import ShrinkageSolver

__all__ = [
    "AdamSolver",
    "AdaptSettings",
    "CandidatesSettings",
    "ConvexSolver",
    "GroupsSettings",
    "MixtureSettings",
    "PoolSettings",
    "PosteriorSettings",
    "SelectionSettings",
    "SeparationSolver",
    "Settings",
    "ShrinkageSolver",
    "UnlabeledSettings",
    "separation_loss",
]
