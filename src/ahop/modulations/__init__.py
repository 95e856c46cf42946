"""Modulations: changes of patterns before they are compared."""

import ahop._core.with_torch  # noqa: F401
from ahop.modulations.base import Modulation
from ahop.modulations.kernel import KernelModulation
from ahop.modulations.unmodulated import Unmodulated

__all__ = ["KernelModulation", "Modulation", "Unmodulated"]
