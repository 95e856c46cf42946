"""Energies of states, one for each kind of network."""

from ahop.energies.base import Energy
from ahop.energies.free import FreeEnergy
from ahop.energies.quadratic import QuadraticEnergy

__all__ = ["Energy", "FreeEnergy", "QuadraticEnergy"]
