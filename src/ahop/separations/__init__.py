"""From scores to weights, each with the potential whose gradient it is."""

from ahop.separations.argmax import Argmax
from ahop.separations.base import Separation
from ahop.separations.entmax import Entmax
from ahop.separations.exponential import Exponential
from ahop.separations.power import Power
from ahop.separations.softmax import Softmax
from ahop.separations.sparsemax import Sparsemax

__all__ = ["Argmax", "Entmax", "Exponential", "Power", "Separation", "Softmax", "Sparsemax"]
