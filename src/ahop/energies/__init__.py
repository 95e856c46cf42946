"""Energies of states, one for each kind of network."""

import ahop._core.with_torch  # noqa: F401
from ahop.energies.base import Energy
from ahop.energies.free import FreeEnergy
from ahop.energies.quadratic import QuadraticEnergy

__all__ = ["Energy", "FreeEnergy", "QuadraticEnergy"]
