"""The compiled kernels on tensors."""

import logging
from functools import cache
from types import ModuleType
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from ahop._core.kernels.compiled import MOST_DIMENSIONS
from ahop._core.kernels.compiled import native as found

native: ModuleType | None = found

# What the kernels serve.
DTYPES = (torch.float32, torch.float64)

# Work below this is done before a second thread has woken up.
LEAST_SHARED_WORK = 1 << 18

logger = logging.getLogger("ahop")


def compiled() -> ModuleType | None:
    """The module, or None after saying so once."""
    if native is None and not torch.compiler.is_compiling():
        _say_so()
    return native


def fits(patterns: Tensor, queries: Tensor) -> bool:
    """True if kernels serve numbers of this kind and number of dimensions."""
    return patterns.dtype in DTYPES and patterns.dtype == queries.dtype and 0 < patterns.shape[-1] <= MOST_DIMENSIONS


def arrays(*tensors: Tensor) -> tuple[NDArray[Any], ...]:
    """View as numpy, which is handed to a kernel in a third of the time."""
    return tuple(each.detach().numpy() for each in tensors)


def threads_for(work: int) -> int:
    """Number of threads for this amount of numbers."""
    return torch.get_num_threads() if work >= LEAST_SHARED_WORK else 1


@cache
def _say_so() -> None:
    logger.warning(
        "ahop was installed without its compiled kernels; footprints take the slower way through numpy and torch. "
        "Install it again where there is a C++17 compiler to have them."
    )
