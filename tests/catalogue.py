"""One instance or more of every public class, by family: what the laws are tried on.

Factories take the number of dimensions (and of patterns, where a part knows them one by one) and give parts whose
parameters have left their start, so that no law holds only there.
"""

from collections.abc import Callable
from typing import TypeVar

import torch
from torch import Tensor, nn

import ahop
from ahop import zoo
from ahop._component import Component
from ahop.dynamics.base import Dynamics
from ahop.energy import Energy
from ahop.fitting.fit import Solver
from ahop.modulations.base import Modulation
from ahop.separations.base import Separation
from ahop.similarities.base import DecomposableSimilarity, LinearSimilarity, Similarity
from ahop.variants.base import Variant

Part = TypeVar("Part", bound=nn.Module)


def shaken(part: Part, seed: int = 0) -> Part:
    """The part with every parameter moved a little."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in part.parameters():
            parameter.add_(0.3 * torch.randn(parameter.shape, generator=generator, dtype=parameter.dtype))
    return part


def three_bases() -> list[DecomposableSimilarity]:
    return [ahop.EuclideanSimilarity(), ahop.DotSimilarity(), ahop.ManhattanSimilarity()]


# (dimensions, patterns) -> similarity
SimilarityFactory = Callable[[int, int], Similarity]

SIMILARITIES: dict[str, SimilarityFactory] = {
    "dot": lambda d, n: ahop.DotSimilarity(),
    "euclidean": lambda d, n: ahop.EuclideanSimilarity(),
    "manhattan": lambda d, n: ahop.ManhattanSimilarity(),
    "match": lambda d, n: ahop.MatchSimilarity(),
    "unified": lambda d, n: shaken(ahop.UnifiedSimilarity(d)),
    "footprint of euclidean": lambda d, n: shaken(ahop.FootprintSimilarity(ahop.EuclideanSimilarity(), d)),
    "footprint of dot": lambda d, n: shaken(ahop.FootprintSimilarity(ahop.DotSimilarity(), d)),
    "footprint of match": lambda d, n: shaken(ahop.FootprintSimilarity(ahop.MatchSimilarity(), d)),
    "footprint of unified": lambda d, n: shaken(ahop.FootprintSimilarity(ahop.UnifiedSimilarity(d), d)),
    "adaptive": lambda d, n: shaken(ahop.AdaptiveSimilarity(d)),
    "adaptive, one base": lambda d, n: shaken(ahop.AdaptiveSimilarity(d, [ahop.ManhattanSimilarity()])),
    "adaptive, three bases": lambda d, n: shaken(ahop.AdaptiveSimilarity(d, three_bases())),
    "isolated": lambda d, n: shaken(ahop.IsolatedSimilarity(n, d)),
    "likelihood of noise": lambda d, n: ahop.LikelihoodSimilarity(ahop.NoisyVariant(0.5)),
    "likelihood of a mask": lambda d, n: ahop.LikelihoodSimilarity(ahop.MaskedVariant(0.3, low=-9.0, high=9.0)),
    "likelihood of a mixture": lambda d, n: ahop.LikelihoodSimilarity(ahop.MixedVariant(0.3, 0.5, 0.2)),
}
DECOMPOSABLE = [name for name, make in SIMILARITIES.items() if isinstance(make(2, 3), DecomposableSimilarity)]
LINEAR = [name for name, make in SIMILARITIES.items() if isinstance(make(2, 3), LinearSimilarity)]

# They have numbers of their own for each dimension.
KNOWS_DIMENSIONS = {"unified", "footprint of unified", "likelihood of a mixture"}

# They count exact agreements, or steps, and have no slope.
DISCRETE = {"match", "footprint of match", "likelihood of a mask"}

SEPARATIONS: list[Separation] = [
    ahop.Power(1),
    ahop.Power(2),
    ahop.Power(3),
    ahop.Exponential(),
    ahop.Softmax(),
    ahop.Softmax(30.0),
    ahop.Sparsemax(),
    ahop.Sparsemax(5.0),
    ahop.Entmax(),
    ahop.Entmax(1.2, beta=4.0),
    ahop.Entmax(1.6, learnable=True),
    ahop.Argmax(),
]
DISTRIBUTIONS = [separation for separation in SEPARATIONS if separation.is_distribution]
CURVED = [
    separation for separation in SEPARATIONS if isinstance(separation, ahop.Softmax | ahop.Sparsemax | ahop.Entmax)
]

# dimensions -> modulation
MODULATIONS: dict[str, Callable[[int], Modulation]] = {
    "none": lambda d: ahop.Unmodulated(),
    "kernel": lambda d: shaken(ahop.KernelModulation(d)),
    "narrow kernel": lambda d: shaken(ahop.KernelModulation(d, kernel_dimensions=1)),
    "wide kernel": lambda d: shaken(ahop.KernelModulation(d, kernel_dimensions=d + 2)),
}

ENERGIES: list[Energy] = [ahop.FreeEnergy(), ahop.QuadraticEnergy()]

# dimensions -> variant
VARIANTS: dict[str, Callable[[int], Variant]] = {
    "noise": lambda d: ahop.NoisyVariant(0.04),
    "noise, one variance each": lambda d: ahop.NoisyVariant(torch.linspace(0.1, 0.5, d)),
    "mask": lambda d: ahop.MaskedVariant(0.3),
    "bias": lambda d: ahop.BiasedVariant(0.25),
    "bias, one shift each": lambda d: ahop.BiasedVariant(torch.linspace(-1.0, 1.0, d)),
    "noise, then bias": lambda d: ahop.ComposedVariant([ahop.NoisyVariant(0.1), ahop.BiasedVariant(0.5)]),
    "noise, then mask": lambda d: ahop.ComposedVariant([ahop.NoisyVariant(0.1), ahop.MaskedVariant(0.2)]),
    "mixture, constant signs": lambda d: ahop.MixedVariant(0.4, 0.3, 0.2),
    "mixture, signs per query": lambda d: ahop.MixedVariant(0.4, 0.3, 0.2, signs="per_query"),
    "mixture, noise as variance": lambda d: ahop.MixedVariant(0.4, 0.09, 0.2, reading="variance"),
}
# The rest can only be sampled.
WITHOUT_LIKELIHOOD = {"noise, then mask"}

# dimensions -> dynamics
DYNAMICS: dict[str, Callable[[int], Dynamics]] = {
    "readout": lambda d: ahop.Readout(),
    "signs together": lambda d: ahop.SignDynamics(),
    "signs one by one": lambda d: ahop.SignDynamics("one_by_one", seed=3),
    "descent": lambda d: ahop.GradientDescent(0.2),
    "de-biased readout": lambda d: ahop.DebiasedReadout(torch.full((d,), 0.1)),
}

SOLVERS: dict[str, Solver] = {
    "convex": ahop.ConvexSolver(),
    "adam": ahop.AdamSolver(epochs=20, learning_rate=0.05),
    "separation": ahop.SeparationSolver(epochs=20),
}

# patterns -> memory
ZOO: dict[str, Callable[[Tensor], ahop.AssociativeMemory]] = {
    "hop": zoo.hop,
    "d_hop": zoo.d_hop,
    "e_hop": zoo.e_hop,
    "m_hop": lambda patterns: zoo.m_hop(patterns, beta=2.0),
    "u_hop": zoo.u_hop,
    "s_hop": lambda patterns: zoo.s_hop(patterns, beta=2.0),
    "k_hop": zoo.k_hop,
    "k2_hop": lambda patterns: shaken(zoo.k2_hop(patterns, kernel_dimensions=2)),
    "a_hop": lambda patterns: shaken(zoo.a_hop(patterns)),
}

FAMILIES = (Similarity, Separation, Modulation, Variant, Energy, Dynamics)


def components() -> list[Component]:
    """Every component of the catalogue, for three dimensions and four patterns."""
    return [
        *(make(3, 4) for make in SIMILARITIES.values()),
        *SEPARATIONS,
        *(make(3) for make in MODULATIONS.values()),
        *ENERGIES,
        *(make(3) for make in VARIANTS.values()),
    ]
