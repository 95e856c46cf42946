"""From scores to weights, each with the potential whose gradient it is."""

import ahop._core.with_torch  # noqa: F401
from ahop.separations.argmax import Argmax
from ahop.separations.base import Separation
from ahop.separations.entmax import Entmax
from ahop.separations.exponential import Exponential
from ahop.separations.ghost import GhostSoftmax
from ahop.separations.log_sum_relu import LogSumReLU
from ahop.separations.normmax import Normmax
from ahop.separations.power import Power
from ahop.separations.softmax import Softmax
from ahop.separations.sparsemax import Sparsemax
from ahop.separations.top_k import TopK

__all__ = [
    "Argmax",
    "Entmax",
    "Exponential",
    "GhostSoftmax",
    "LogSumReLU",
    "Normmax",
    "Power",
    "Separation",
    "Softmax",
    "Sparsemax",
    "TopK",
]
