"""How a state moves until it rests."""

from ahop.dynamics.base import Dynamics
from ahop.dynamics.debiased import DebiasedReadout
from ahop.dynamics.descent import GradientDescent
from ahop.dynamics.flips import FlipDynamics
from ahop.dynamics.ranked import RankedReadout
from ahop.dynamics.readout import Readout
from ahop.dynamics.sign import SignDynamics
from ahop.dynamics.trajectory import Trajectory, iterate

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
