"""One instance or more of every public class, by family: what the laws are tried on.

Factories take the number of dimensions (and of patterns, where a part knows them one by one) and give parts whose
parameters have left their start, so that no law holds only there.
"""

from collections.abc import Callable
from math import log
from typing import TypeVar

import torch
from torch import Tensor, nn

import ahop
from ahop import zoo
from ahop._core.component import Component
from ahop._core.missingness import Missingness
from ahop.energies.base import Energy
from ahop.fitting.fit import Solver
from ahop.modulations.base import Modulation
from ahop.paper.dynamics.base import Dynamics
from ahop.separations.base import Separation
from ahop.similarities.base import DecomposableSimilarity, LinearSimilarity, Similarity
from ahop.transforms.base import Transform
from ahop.variants.base import Variant
from tests.strategies import Problem

Part = TypeVar("Part", bound=nn.Module)


def shaken(part: Part, seed: int = 0) -> Part:
    """The part with every parameter moved a little."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in part.parameters():
            parameter.add_(0.3 * torch.randn(parameter.shape, generator=generator, dtype=parameter.dtype))
    return part


def three_bases() -> list[DecomposableSimilarity]:
    return [ahop.EuclideanSimilarity(), ahop.DotSimilarity(), ahop.similarities.ManhattanSimilarity()]


# What is learned by other ways than gradients has buffers for its numbers: these, too, have left their start.


def _uniform(like: Tensor, low: float, high: float, generator: torch.Generator) -> Tensor:
    return low + (high - low) * torch.rand(like.shape, generator=generator)


def _rising(like: Tensor, generator: torch.Generator) -> Tensor:
    return (1.5 * torch.randn(like.shape, generator=generator)).sort(-1).values


def _move_missingness(missingness: Missingness, generator: torch.Generator) -> None:
    """About one entry in six is missing, more or less of it by the value: a gap says something."""
    missingness.base.copy_(_uniform(missingness.base, -2.5, -1.0, generator))
    missingness.edges.copy_(_rising(missingness.edges, generator))
    missingness.shifts.copy_(torch.randn(missingness.shifts.shape, generator=generator))


def moved_mixture(
    dimensions: int, signs: bool = False, seed: int = 0, missing_is_informative: bool = True
) -> ahop.variants.MixtureVariant:
    generator = torch.Generator().manual_seed(seed)
    variant = ahop.variants.MixtureVariant(dimensions, signs)
    variant.gain.copy_(_uniform(variant.gain, 0.8, 1.2, generator))
    variant.bias.copy_(0.5 * torch.randn(dimensions, generator=generator))
    variant.std.copy_(_uniform(variant.std, 0.2, 1.0, generator))
    variant.outlier_rate.copy_(_uniform(variant.outlier_rate, 0.05, 0.5, generator))
    variant.center.copy_(0.5 * torch.randn(dimensions, generator=generator))
    variant.scale.copy_(_uniform(variant.scale, 0.5, 2.0, generator))
    variant.population.copy_(_rising(variant.population, generator))
    variant.outliers.ends.copy_(torch.tensor([-2.5, 2.0]))
    heights = torch.randn(8, generator=generator).repeat_interleave(variant.outliers.steps // 8)
    variant.outliers.log_density.copy_(torch.log_softmax(heights, 0) - log(4.5 / variant.outliers.steps))
    _move_missingness(variant.missingness, generator)
    if not missing_is_informative:
        variant.missingness.shifts.zero_()
    return variant


def moved_heteroscedastic(dimensions: int) -> ahop.variants.HeteroscedasticVariant:
    """The first half of the columns are values, the second the standard deviations of these, as far as they go."""
    values = -(-dimensions // 2)
    base = moved_mixture(values, missing_is_informative=dimensions > 2)
    errors = [place + values if place + values < dimensions else -1 for place in range(values)]
    variant = ahop.variants.HeteroscedasticVariant(base, range(values), errors)
    variant.factor.fill_(0.7)
    generator = torch.Generator().manual_seed(dimensions)
    variant.stored_errors.copy_(torch.rand(values, generator=generator))
    variant.asked_errors.copy_(torch.rand(variant.asked_errors.shape, generator=generator))
    return variant


def moved_nuisance(dimensions: int) -> ahop.variants.NuisanceVariant:
    generator = torch.Generator().manual_seed(0)
    variant = ahop.variants.NuisanceVariant(dimensions, rank=2)
    variant.bias.copy_(0.5 * torch.randn(dimensions, generator=generator))
    variant.std.copy_(_uniform(variant.std, 0.2, 1.0, generator))
    variant.directions.copy_(0.4 * torch.randn(variant.directions.shape, generator=generator))
    variant.gain_std.fill_(0.3)
    variant.center.copy_(0.5 * torch.randn(dimensions, generator=generator))
    variant.spread.copy_(_uniform(variant.spread, 0.5, 1.5, generator))
    return variant


def moved_additive(
    dimensions: int, rank: int = 1, seed: int = 0, missing_is_informative: bool = True
) -> ahop.similarities.AdditiveSimilarity:
    generator = torch.Generator().manual_seed(seed)
    similarity = ahop.similarities.AdditiveSimilarity(dimensions, query_knots=7, pattern_knots=5, rank=rank)
    similarity.query_places.copy_(_rising(similarity.query_places, generator))
    similarity.pattern_places.copy_(_rising(similarity.pattern_places, generator))
    similarity.mixing.copy_(torch.randn(similarity.mixing.shape, generator=generator))
    with torch.no_grad():
        similarity.tables.copy_(torch.randn(similarity.tables.shape, generator=generator))
        similarity.gap_weight.fill_(1.3)
    _move_missingness(similarity.missingness, generator)
    if not missing_is_informative:
        similarity.missingness.shifts.zero_()
    return similarity


def moved_debiased(base: DecomposableSimilarity, dimensions: int) -> ahop.similarities.DebiasedSimilarity:
    similarity = ahop.similarities.DebiasedSimilarity(base, dimensions)
    similarity.bias.copy_(torch.randn(dimensions, generator=torch.Generator().manual_seed(0)))
    return similarity


def evidence(
    dimensions: int, signs: bool = False, missing_is_informative: bool = True
) -> ahop.likelihood.EvidenceSimilarity:
    return ahop.likelihood.EvidenceSimilarity(
        moved_mixture(dimensions, signs, missing_is_informative=missing_is_informative)
    )


def moved_aligned(base: Similarity, dimensions: int) -> ahop.similarities.AlignedSimilarity:
    generator = torch.Generator().manual_seed(0)
    similarity = ahop.similarities.AlignedSimilarity(base, dimensions)
    similarity.offset.copy_(torch.randn(dimensions, generator=generator))
    similarity.gain.copy_(_uniform(similarity.gain, 0.5, 1.5, generator))
    return similarity


def moved_forward(dimensions: int, asked: int | None = None) -> ahop.similarities.ForwardSimilarity:
    generator = torch.Generator().manual_seed(0)
    similarity = ahop.similarities.ForwardSimilarity(dimensions, asked)
    width = similarity.slopes.shape[0]
    similarity.slopes.copy_(0.5 * torch.randn(width, dimensions, generator=generator))
    root = 0.3 * torch.randn(width, width, generator=generator)
    similarity.precision.copy_(torch.eye(width) + root @ root.mT)
    similarity.center.copy_(0.5 * torch.randn(dimensions, generator=generator))
    similarity.mean.copy_(0.5 * torch.randn(width, generator=generator))
    return similarity


def pool(*members: Similarity) -> ahop.similarities.PooledSimilarity:
    similarity = ahop.similarities.PooledSimilarity(members)
    similarity.weights.copy_(torch.linspace(0.4, 1.6, len(members)))
    return similarity


def bounded_products(patterns: Tensor, queries: Tensor) -> Tensor:
    """A metric of a user's own, who has thought of gaps."""
    return torch.tanh(queries.nan_to_num()) @ torch.tanh(patterns.nan_to_num()).mT


TRANSFORMS: dict[str, Transform] = {
    "snv": ahop.transforms.SNVTransform(),
    "differences": ahop.transforms.DifferenceTransform(),
    "power": ahop.transforms.PowerTransform(-3.0, 2.0, 1.5),
    "root, gaps at zero": ahop.transforms.PowerTransform(-1.0, 2.0, 0.5, missing=0.0),
    "logarithm": ahop.transforms.LogTransform(-4.0, 1.0),
    "logarithm, gaps at zero": ahop.transforms.LogTransform(-0.5, 0.5, missing=0.0),
    "ranks": ahop.transforms.RankTransform(),
    "first column": ahop.transforms.SelectTransform([0]),
}


def transformed(base: Similarity, transform: str) -> ahop.similarities.TransformedSimilarity:
    return ahop.similarities.TransformedSimilarity(base, TRANSFORMS[transform])


def of_every_second(base: Callable[[int], Similarity], dimensions: int) -> ahop.similarities.TransformedSimilarity:
    """A similarity of every second column, the last of them first."""
    places = list(range(0, dimensions, 2))[::-1]
    selected = ahop.transforms.SelectTransform(places)
    return ahop.similarities.TransformedSimilarity(base(len(places)), selected)


def agreement(dimensions: int) -> ahop.similarities.AgreementSimilarity:
    """Levels, shares and values that differ from column to column."""
    generator = torch.Generator().manual_seed(dimensions)
    found = ahop.similarities.AgreementSimilarity(dimensions, levels=4, values=9)
    found.edges[:, 1:] = torch.rand(dimensions, 2, generator=generator).cumsum(-1)
    found.copied.copy_(torch.rand(dimensions, 4, generator=generator).softmax(-1))
    found.by_chance.copy_(torch.rand(dimensions, 4, generator=generator).softmax(-1))
    found.population.copy_(torch.randn(dimensions, 9, generator=generator).sort(-1).values)
    return found


# (dimensions, patterns) -> similarity
SimilarityFactory = Callable[[int, int], Similarity]

SIMILARITIES: dict[str, SimilarityFactory] = {
    "dot": lambda d, n: ahop.DotSimilarity(),
    "euclidean": lambda d, n: ahop.EuclideanSimilarity(),
    "manhattan": lambda d, n: ahop.similarities.ManhattanSimilarity(),
    "match": lambda d, n: ahop.similarities.MatchSimilarity(),
    "gower": lambda d, n: ahop.similarities.GowerSimilarity(d),
    "gower, categories": lambda d, n: ahop.similarities.GowerSimilarity(d, range(0, d, 2)),
    "agreement": lambda d, n: agreement(d),
    "heteroscedastic": lambda d, n: ahop.likelihood.LikelihoodSimilarity(moved_heteroscedastic(d)),
    "unified": lambda d, n: shaken(ahop.similarities.UnifiedSimilarity(d)),
    "footprint of euclidean": lambda d, n: shaken(ahop.similarities.FootprintSimilarity(ahop.EuclideanSimilarity(), d)),
    "footprint of dot": lambda d, n: shaken(ahop.similarities.FootprintSimilarity(ahop.DotSimilarity(), d)),
    "footprint of match": lambda d, n: shaken(
        ahop.similarities.FootprintSimilarity(ahop.similarities.MatchSimilarity(), d)
    ),
    "footprint of unified": lambda d, n: shaken(
        ahop.similarities.FootprintSimilarity(ahop.similarities.UnifiedSimilarity(d), d)
    ),
    "adaptive": lambda d, n: shaken(ahop.AdaptiveSimilarity(d)),
    "adaptive, one base": lambda d, n: shaken(ahop.AdaptiveSimilarity(d, [ahop.similarities.ManhattanSimilarity()])),
    "adaptive, three bases": lambda d, n: shaken(ahop.AdaptiveSimilarity(d, three_bases())),
    "isolated": lambda d, n: shaken(ahop.similarities.IsolatedSimilarity(n, d)),
    "likelihood of noise": lambda d, n: ahop.likelihood.LikelihoodSimilarity(ahop.NoisyVariant(0.5)),
    "likelihood of a mask": lambda d, n: ahop.likelihood.LikelihoodSimilarity(
        ahop.variants.MaskedVariant(0.3, low=-9.0, high=9.0)
    ),
    "likelihood of a mixture": lambda d, n: ahop.likelihood.LikelihoodSimilarity(ahop.MixedVariant(0.3, 0.5, 0.2)),
    "likelihood of a learned mixture": lambda d, n: ahop.likelihood.LikelihoodSimilarity(moved_mixture(d)),
    "likelihood of a learned nuisance": lambda d, n: ahop.likelihood.LikelihoodSimilarity(moved_nuisance(d)),
    "evidence": lambda d, n: evidence(d),
    "evidence, signs": lambda d, n: evidence(d, signs=True),
    "evidence, silent gaps": lambda d, n: evidence(d, missing_is_informative=False),
    "additive": lambda d, n: moved_additive(d),
    "additive, three tables": lambda d, n: moved_additive(d, rank=3),
    "additive, silent gaps": lambda d, n: moved_additive(d, missing_is_informative=False),
    "debiased euclidean": lambda d, n: moved_debiased(ahop.EuclideanSimilarity(), d),
    "debiased dot": lambda d, n: moved_debiased(ahop.DotSimilarity(), d),
    "debiased evidence": lambda d, n: moved_debiased(evidence(d), d),
    "footprint of evidence": lambda d, n: shaken(ahop.similarities.FootprintSimilarity(evidence(d), d)),
    "footprint of additive": lambda d, n: shaken(ahop.similarities.FootprintSimilarity(moved_additive(d), d)),
    "footprint of debiased": lambda d, n: shaken(
        ahop.similarities.FootprintSimilarity(moved_debiased(ahop.EuclideanSimilarity(), d), d)
    ),
    "adaptive, learned bases": lambda d, n: shaken(ahop.AdaptiveSimilarity(d, [evidence(d), moved_additive(d)])),
    "adaptive, debiased bases": lambda d, n: shaken(
        ahop.AdaptiveSimilarity(d, [moved_debiased(base, d) for base in (ahop.EuclideanSimilarity(), evidence(d))])
    ),
    "isolated, learned base": lambda d, n: shaken(ahop.similarities.IsolatedSimilarity(n, d, [evidence(d)])),
    "cosine": lambda d, n: ahop.similarities.CosineSimilarity(),
    "correlation": lambda d, n: ahop.similarities.CorrelationSimilarity(),
    "sorensen": lambda d, n: ahop.similarities.SorensenSimilarity(),
    "snv, then euclidean": lambda d, n: transformed(ahop.EuclideanSimilarity(), "snv"),
    "differences, then correlation": lambda d, n: transformed(ahop.similarities.CorrelationSimilarity(), "differences"),
    "differences, then evidence": lambda d, n: transformed(evidence(max(1, d - 1)), "differences"),
    "power, then cosine": lambda d, n: transformed(ahop.similarities.CosineSimilarity(), "power"),
    "root with gaps at zero, then sorensen": lambda d, n: transformed(
        ahop.similarities.SorensenSimilarity(), "root, gaps at zero"
    ),
    "logarithm, then manhattan": lambda d, n: transformed(ahop.similarities.ManhattanSimilarity(), "logarithm"),
    "logarithm with gaps at zero, then dot": lambda d, n: transformed(ahop.DotSimilarity(), "logarithm, gaps at zero"),
    "ranks, then euclidean": lambda d, n: transformed(ahop.EuclideanSimilarity(), "ranks"),
    "selected, then evidence": lambda d, n: of_every_second(evidence, d),
    "aligned sorensen": lambda d, n: moved_aligned(ahop.similarities.SorensenSimilarity(), d),
    "aligned cosine": lambda d, n: moved_aligned(ahop.similarities.CosineSimilarity(), d),
    "aligned footprint": lambda d, n: moved_aligned(shaken(ahop.AdaptiveSimilarity(d)), d),
    "aligned evidence": lambda d, n: moved_aligned(evidence(d), d),
    "pool of fixed metrics": lambda d, n: pool(ahop.EuclideanSimilarity(), ahop.similarities.CosineSimilarity()),
    "pool of learned ones": lambda d, n: pool(evidence(d), moved_additive(d)),
    "pool with an aligned and a transformed one": lambda d, n: pool(
        evidence(d),
        moved_aligned(ahop.similarities.SorensenSimilarity(), d),
        transformed(ahop.similarities.CosineSimilarity(), "root, gaps at zero"),
    ),
    "pool with a pool and an isolated one": lambda d, n: pool(
        pool(ahop.DotSimilarity(), ahop.similarities.CosineSimilarity()),
        shaken(ahop.similarities.IsolatedSimilarity(n, d)),
    ),
    "pool of selected ones": lambda d, n: pool(of_every_second(evidence, d), of_every_second(moved_additive, d)),
    "forward": lambda d, n: moved_forward(d),
    "callable": lambda d, n: ahop.similarities.CallableSimilarity(bounded_products, "bounded products"),
}


def made(name: str, case: Problem) -> Similarity:
    return SIMILARITIES[name](*case.sizes)


def decomposable(name: str, case: Problem) -> DecomposableSimilarity:
    similarity = made(name, case)
    assert isinstance(similarity, DecomposableSimilarity)
    return similarity


DECOMPOSABLE = [name for name, make in SIMILARITIES.items() if isinstance(make(2, 3), DecomposableSimilarity)]
LINEAR = [name for name, make in SIMILARITIES.items() if isinstance(make(2, 3), LinearSimilarity)]

# They say themselves what a NaN means, and have laws of their own for it.
SILENCE_IS_EVIDENCE = [name for name, make in SIMILARITIES.items() if make(2, 3).missing_is_evidence]

# These, or they refuse a NaN; the laws of what was not observed pass them by.
KNOWS_GAPS = {
    name
    for name, make in SIMILARITIES.items()
    if name in SILENCE_IS_EVIDENCE or isinstance(make(2, 3), ahop.likelihood.LikelihoodSimilarity)
}

# Their scores are those of their parts; what they make of them has tests of its own, in `test_members`.
MADE_OF_OTHERS = {
    name
    for name, make in SIMILARITIES.items()
    if isinstance(
        make(2, 3),
        ahop.similarities.TransformedSimilarity
        | ahop.similarities.AlignedSimilarity
        | ahop.similarities.PooledSimilarity
        | ahop.similarities.CallableSimilarity,
    )
}

# One around other parts: the first of a class takes every law, with all that has no parts. The others differ from it in
# parts that have taken every law themselves, and take three: what joining can break is the sum of the contributions, a
# pair that is scored on its own, and the size of the numbers.
AROUND_OTHERS = (
    ahop.similarities.FootprintSimilarity,
    ahop.AdaptiveSimilarity,
    ahop.similarities.IsolatedSimilarity,
    ahop.similarities.DebiasedSimilarity,
    ahop.similarities.TransformedSimilarity,
    ahop.similarities.AlignedSimilarity,
    ahop.similarities.PooledSimilarity,
)
FIRST_OF_CLASS = {type(make(2, 3)): name for name, make in reversed(SIMILARITIES.items())}
PRIMITIVE = [
    name
    for name, make in SIMILARITIES.items()
    if not isinstance(make(2, 3), AROUND_OTHERS) or name in FIRST_OF_CLASS.values()
]

# What a member does not know of a pair is as bad as the worst that it knows of another: gaps tie patterns together.
KNOWS_COMPANY = {
    "pool of fixed metrics",
    "pool with an aligned and a transformed one",
    "pool with a pool and an isolated one",
}

# Nothing in a file can run.
NOT_SAVED = {"callable"}

# They have numbers of their own for each pattern.
KNOWS_PATTERNS = {name for name in SIMILARITIES if "isolated" in name}

# They have numbers of their own for each dimension, or take them in an order: those that are learned dimension by
# dimension all do.
TOLD_APART = (
    "forward",
    "learned",
    "evidence",
    "additive",
    "debiased",
    "aligned",
    "differences",
    "selected",
    "categories",
    "agreement",
    "heteroscedastic",
)
KNOWS_DIMENSIONS = {
    "unified",
    "footprint of unified",
    "likelihood of a mixture",
    *(name for name in SIMILARITIES if any(word in name for word in TOLD_APART)),
}

# They count exact agreements, or steps, and have no slope.
DISCRETE = {
    "match",
    "agreement",
    "gower, categories",
    "footprint of match",
    "likelihood of a mask",
    "ranks, then euclidean",
}

SEPARATIONS: list[Separation] = [
    ahop.separations.Power(1),
    ahop.separations.Power(2),
    ahop.separations.Power(3),
    ahop.separations.Exponential(),
    ahop.Softmax(),
    ahop.Softmax(30.0),
    ahop.Softmax(2.0, floor=0.2),
    ahop.separations.Sparsemax(),
    ahop.separations.Sparsemax(5.0),
    ahop.separations.Entmax(),
    ahop.separations.Entmax(1.2, beta=4.0),
    ahop.separations.Entmax(1.6, learnable=True),
    ahop.separations.Normmax(),
    ahop.separations.Normmax(1.5, beta=4.0),
    ahop.separations.TopK(2),
    ahop.separations.TopK(3, beta=5.0),
    ahop.separations.GhostSoftmax(),
    ahop.separations.GhostSoftmax(3.0, ghost=0.5),
    ahop.separations.LogSumReLU(),
    ahop.separations.LogSumReLU(0.3),
    ahop.separations.Argmax(),
]
DISTRIBUTIONS = [separation for separation in SEPARATIONS if separation.is_distribution]
CURVED = [
    separation
    for separation in SEPARATIONS
    if isinstance(separation, ahop.Softmax | ahop.separations.Sparsemax | ahop.separations.Entmax)
]

# dimensions -> modulation
MODULATIONS: dict[str, Callable[[int], Modulation]] = {
    "none": lambda d: ahop.modulations.Unmodulated(),
    "kernel": lambda d: shaken(ahop.modulations.KernelModulation(d)),
    "narrow kernel": lambda d: shaken(ahop.modulations.KernelModulation(d, kernel_dimensions=1)),
    "wide kernel": lambda d: shaken(ahop.modulations.KernelModulation(d, kernel_dimensions=d + 2)),
}

ENERGIES: list[Energy] = [ahop.energies.FreeEnergy(), ahop.energies.QuadraticEnergy()]

# dimensions -> variant
VARIANTS: dict[str, Callable[[int], Variant]] = {
    "noise": lambda d: ahop.NoisyVariant(0.04),
    "noise, one variance each": lambda d: ahop.NoisyVariant(torch.linspace(0.1, 0.5, d)),
    "mask": lambda d: ahop.variants.MaskedVariant(0.3),
    "bias": lambda d: ahop.variants.BiasedVariant(0.25),
    "bias, one shift each": lambda d: ahop.variants.BiasedVariant(torch.linspace(-1.0, 1.0, d)),
    "noise, then bias": lambda d: ahop.variants.ComposedVariant(
        [ahop.NoisyVariant(0.1), ahop.variants.BiasedVariant(0.5)]
    ),
    "noise, then mask": lambda d: ahop.variants.ComposedVariant(
        [ahop.NoisyVariant(0.1), ahop.variants.MaskedVariant(0.2)]
    ),
    "values and standard deviations": moved_heteroscedastic,
    "mixture, constant signs": lambda d: ahop.MixedVariant(0.4, 0.3, 0.2),
    "mixture, signs per query": lambda d: ahop.MixedVariant(0.4, 0.3, 0.2, signs="per_query"),
    "mixture, mask last": lambda d: ahop.MixedVariant(0.4, 0.3, 0.2, mask_last=True),
    "mixture, noise as variance": lambda d: ahop.MixedVariant(0.4, 0.09, 0.2, reading="variance"),
    "learned mixture": lambda d: moved_mixture(d),
    "learned mixture, signs": lambda d: moved_mixture(d, signs=True),
    "learned nuisance": lambda d: moved_nuisance(d),
}
LEARNED_MIXTURES = [name for name, make in VARIANTS.items() if isinstance(make(2), ahop.variants.MixtureVariant)]
# The rest can only be sampled.
WITHOUT_LIKELIHOOD = {"noise, then mask"}

# dimensions -> dynamics
DYNAMICS: dict[str, Callable[[int], Dynamics]] = {
    "readout": lambda d: ahop.dynamics.Readout(),
    "signs together": lambda d: ahop.dynamics.SignDynamics(),
    "signs one by one": lambda d: ahop.dynamics.SignDynamics("one_by_one", seed=3),
    "signs by flips": lambda d: ahop.dynamics.FlipDynamics(seed=3),
    "descent": lambda d: ahop.dynamics.GradientDescent(0.2),
    "ranked readout": lambda d: ahop.dynamics.RankedReadout(),
    "de-biased readout": lambda d: ahop.dynamics.DebiasedReadout(torch.full((d,), 0.1)),
}

SOLVERS: dict[str, Solver] = {
    "convex": ahop.fitting.ConvexSolver(),
    "adam": ahop.fitting.AdamSolver(epochs=20, learning_rate=0.05),
    "separation": ahop.fitting.SeparationSolver(epochs=20),
    "shrinkage": ahop.fitting.ShrinkageSolver(max_steps=10),
}


def moved_detector() -> ahop.unknown.UnknownDetector:
    detector = ahop.unknown.UnknownDetector(0.1)
    detector.center.copy_(torch.tensor([1.0, 2.0, -1.0, 0.5]))
    detector.scale.copy_(torch.tensor([2.0, 1.0, 3.0, 0.5]))
    detector.slopes.copy_(torch.tensor([1.0, 2.0, -0.5, 0.2]))
    detector.offset.fill_(0.3)
    return detector


def some_reference() -> ahop.reference.Reference:
    reference = ahop.reference.Reference.of(torch.tensor([[1.0, torch.nan, 3.0], [4.0, 5.0, 6.0]]), ["phone", "watch"])
    assert reference is not None
    return reference


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

# They mix all dimensions of a stored pattern, and refuse one that was not wholly observed.
MIXES_DIMENSIONS = {"k_hop", "k2_hop"}

FAMILIES = (Similarity, Transform, Separation, Modulation, Variant, Energy, Dynamics)


def components() -> list[Component]:
    """Every component of the catalogue, for three dimensions and four patterns."""
    return [
        *(make(3, 4) for make in SIMILARITIES.values()),
        *TRANSFORMS.values(),
        *SEPARATIONS,
        *(make(3) for make in MODULATIONS.values()),
        *ENERGIES,
        *(make(3) for make in VARIANTS.values()),
        moved_detector(),
        some_reference(),
    ]
