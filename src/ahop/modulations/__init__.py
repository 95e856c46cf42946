"""Modulations: changes of patterns before they are compared."""

from ahop.modulations.base import Modulation
from ahop.modulations.kernel import KernelModulation
from ahop.modulations.unmodulated import Unmodulated

__all__ = ["KernelModulation", "Modulation", "Unmodulated"]
