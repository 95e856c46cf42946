"""Table 1 of the paper [tab:summary] as code: every Hopfield network is one line.

The paper's U-Hop is the universal network of Millidge et al., and its K-Hop the kernelized one of Wu et al., whose
authors call theirs U-Hop.
"""

from collections.abc import Sequence

import torch

from ahop._core.inputs import as_patterns
from ahop._core.typing import Array
from ahop.energies.quadratic import QuadraticEnergy
from ahop.memory.memory import AssociativeMemory
from ahop.modulations.kernel import KernelModulation
from ahop.separations.argmax import Argmax
from ahop.separations.base import Separation
from ahop.separations.entmax import Entmax
from ahop.separations.exponential import Exponential
from ahop.separations.power import Power
from ahop.separations.softmax import Softmax
from ahop.separations.sparsemax import Sparsemax
from ahop.similarities.adaptive import AdaptiveSimilarity
from ahop.similarities.base import DecomposableSimilarity
from ahop.similarities.dot import DotSimilarity
from ahop.similarities.manhattan import ManhattanSimilarity


def hop(patterns: Array) -> AssociativeMemory:
    """Hopfield's original: patterns of signs, dot product, linear separation. Iterate with `SignDynamics`."""
    return AssociativeMemory(patterns, DotSimilarity(), Power(1))


def d_hop(patterns: Array, exponent: int = 3) -> AssociativeMemory:
    """Dense (Krotov and Hopfield): a power of the dot product. Odd exponents have a convex potential."""
    return AssociativeMemory(patterns, DotSimilarity(), Power(exponent))


def e_hop(patterns: Array) -> AssociativeMemory:
    """Exponential (Demircigil et al.): the limit of D-Hop."""
    return AssociativeMemory(patterns, DotSimilarity(), Exponential())


def m_hop(patterns: Array, beta: float = 1.0) -> AssociativeMemory:
    """Modern (Ramsauer et al.): softmax of dot products, one step of attention."""
    return AssociativeMemory(patterns, DotSimilarity(), Softmax(beta), energy=QuadraticEnergy())


def u_hop(patterns: Array) -> AssociativeMemory:
    """Universal (Millidge et al.) in its best setting: Manhattan distance, all weight to the nearest. No energy."""
    return AssociativeMemory(patterns, ManhattanSimilarity(), Argmax(), energy=None)


def s_hop(patterns: Array, beta: float = 1.0) -> AssociativeMemory:
    """Sparse (Hu et al.): sparsemax of dot products."""
    return AssociativeMemory(patterns, DotSimilarity(), Sparsemax(beta), energy=QuadraticEnergy())


def k_hop(
    patterns: Array, separation: Separation | None = None, kernel_dimensions: int | None = None, seed: int = 0
) -> AssociativeMemory:
    """Kernelized (Wu et al.): dot products in a learned space. `fit(memory, solver="separation")` trains the kernel.

    The kernel starts as a random orthogonal matrix, as the separation loss cannot move a symmetric start apart.
    """
    memory = k2_hop(patterns, separation, kernel_dimensions)
    kernel = memory.modulation
    assert isinstance(kernel, KernelModulation)
    torch.nn.init.orthogonal_(kernel.kernel, generator=torch.Generator().manual_seed(seed))
    return memory


def k2_hop(
    patterns: Array, separation: Separation | None = None, kernel_dimensions: int | None = None
) -> AssociativeMemory:
    """K-Hop whose kernel starts at the identity and is fitted from pairs like A-Hop: `fit(memory, pairs=...)`."""
    stored = as_patterns(patterns)
    modulation = KernelModulation(stored.shape[1], kernel_dimensions)
    return AssociativeMemory(stored, DotSimilarity(), separation or Entmax(), modulation, QuadraticEnergy())


def a_hop(
    patterns: Array, bases: Sequence[DecomposableSimilarity] | None = None, separation: Separation | None = None
) -> AssociativeMemory:
    """Adaptive (the paper's own): footprints of distance and dot product, softmax. `fit` teaches it the corruption."""
    stored = as_patterns(patterns)
    return AssociativeMemory(stored, AdaptiveSimilarity(stored.shape[1], bases), separation)
