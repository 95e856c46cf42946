"""Dynamics: rules that move a state until it rests."""

import ahop._core.with_torch  # noqa: F401
from ahop.paper.dynamics.base import Dynamics
from ahop.paper.dynamics.descent import GradientDescent
from ahop.paper.dynamics.flips import FlipDynamics
from ahop.paper.dynamics.readout import DebiasedReadout, RankedReadout, Readout
from ahop.paper.dynamics.sign import SignDynamics
from ahop.paper.dynamics.trajectory import Trajectory, iterate

__all__ = [
    "DebiasedReadout",
    "Dynamics",
    "FlipDynamics",
    "GradientDescent",
    "RankedReadout",
    "Readout",
    "SignDynamics",
    "Trajectory",
    "iterate",
]
