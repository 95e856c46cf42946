"""A learned linear kernel."""

from typing import final

import torch
from torch import nn
from typing_extensions import override

from ahop._core.checks import check_count
from ahop._core.missing import holds_nan
from ahop._core.tensors import all_finite, saturate
from ahop._core.typing import Patterns
from ahop.errors import UnsupportedError
from ahop.modulations.base import Modulation


@final
class KernelModulation(Modulation):
    r"""$\mathrm{mod}(\xi) = \Phi^\top \Phi \xi$, $\Phi$ of shape (kernel_dimensions, d).

    An inner product with a modulated pattern is the inner product in kernel space, $(\Phi\xi)^\top(\Phi x)$.
    $\Phi$ starts at the identity.

    Paper:
        Table 1, K-Hop; Section 2.1.
    """

    def __init__(self, dimensions: int, kernel_dimensions: int | None = None) -> None:
        super().__init__()
        self.dimensions = check_count("dimensions", dimensions)
        kernel_dimensions = dimensions if kernel_dimensions is None else kernel_dimensions
        self.kernel_dimensions = check_count("kernel_dimensions", kernel_dimensions)
        self.kernel = nn.Parameter(torch.eye(self.kernel_dimensions, dimensions))

    @override
    def configuration(self) -> dict[str, object]:
        return {"dimensions": self.dimensions, "kernel_dimensions": self.kernel_dimensions}

    @override
    def forward(self, patterns: Patterns) -> Patterns:
        if holds_nan(patterns):
            raise UnsupportedError(
                "A kernel mixes all dimensions and cannot leave out those that were not observed (NaN). Fill them "
                "first, or use `Unmodulated`."
            )
        modulated = self._modulated(patterns)
        if not torch.compiler.is_compiling() and not all_finite(modulated):
            return saturate(self._modulated(patterns.double()).nan_to_num(0.0), patterns.dtype)
        return modulated

    def _modulated(self, patterns: Patterns) -> Patterns:
        kernel = self.kernel.to(patterns.dtype)
        return patterns @ kernel.mT @ kernel
