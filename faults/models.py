"""Models for the machines: one of each way to score, to weigh and to judge, small and made in no time."""

from collections.abc import Callable
from typing import TypeVar

import torch
from torch import nn

import ahop
from ahop.memory.model import Model
from ahop.memory.unknown import UnknownDetector
from ahop.separations.base import Separation
from ahop.similarities.base import Similarity

Part = TypeVar("Part", bound=nn.Module)


def _shaken(part: Part) -> Part:
    """The part with every parameter moved a little."""
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in part.parameters():
            parameter.add_(0.3 * torch.randn(parameter.shape, generator=generator, dtype=parameter.dtype))
    return part


def _pool(*members: Similarity) -> Similarity:
    similarity = ahop.similarities.PooledSimilarity(members)
    similarity.weights.copy_(torch.linspace(0.4, 1.6, len(members)))
    return similarity


def _mixture(dimensions: int) -> ahop.variants.MixtureVariant:
    """Values were kept, with gain, bias and noise, or are outliers; a gap says something."""
    generator = torch.Generator().manual_seed(1)
    variant = ahop.variants.MixtureVariant(dimensions)
    variant.gain.copy_(0.8 + 0.4 * torch.rand(variant.gain.shape, generator=generator))
    variant.bias.copy_(0.3 * torch.randn(dimensions, generator=generator))
    variant.std.copy_(0.3 + 0.5 * torch.rand(variant.std.shape, generator=generator))
    variant.outlier_rate.copy_(0.05 + 0.3 * torch.rand(variant.outlier_rate.shape, generator=generator))
    variant.population.copy_((1.5 * torch.randn(variant.population.shape, generator=generator)).sort(-1).values)
    variant.missingness.base.copy_(-2.5 + 1.5 * torch.rand(variant.missingness.base.shape, generator=generator))
    variant.missingness.shifts.copy_(torch.randn(variant.missingness.shifts.shape, generator=generator))
    return variant


def _evidence(dimensions: int) -> Similarity:
    return ahop.likelihood.EvidenceSimilarity(_mixture(dimensions))


def _aligned(base: Similarity, dimensions: int, offset: float) -> Similarity:
    similarity = ahop.similarities.AlignedSimilarity(base, dimensions)
    similarity.offset.fill_(offset)
    similarity.gain.fill_(1.0 + offset / 4)
    return similarity


def _detector() -> UnknownDetector:
    detector = UnknownDetector(rate=0.2)
    detector.slopes.copy_(torch.tensor([0.5, 0.8, -0.2, 0.1]))
    detector.center.copy_(torch.tensor([-1.0, 0.5, -2.0, 1.0]))
    detector.offset.fill_(0.3)
    return detector


def _with_groups(similarity: Similarity, dimensions: int, floor: float = 0.0) -> Model:
    groups = {"a": _aligned(similarity, dimensions, 0.5), "7": ahop.EuclideanSimilarity()}
    return Model(similarity, ahop.Softmax(2.0, floor=floor), detector=_detector(), groups=groups)


def _snv(base: Similarity) -> Similarity:
    return ahop.similarities.TransformedSimilarity(base, ahop.transforms.SNVTransform())


# (dimensions, patterns) -> model
MODELS: dict[str, Callable[[int, int], Model]] = {
    "euclidean": lambda d, n: Model(ahop.EuclideanSimilarity(), ahop.Softmax(3.0)),
    "euclidean, detector": lambda d, n: Model(ahop.EuclideanSimilarity(), ahop.Softmax(2.0), detector=_detector()),
    "dot": lambda d, n: Model(ahop.DotSimilarity()),
    "cosine, floor": lambda d, n: Model(ahop.similarities.CosineSimilarity(), ahop.Softmax(5.0, floor=0.1)),
    "manhattan, floor, detector": lambda d, n: Model(
        ahop.similarities.ManhattanSimilarity(), ahop.Softmax(1.0, floor=0.2), detector=_detector()
    ),
    "match": lambda d, n: Model(ahop.similarities.MatchSimilarity()),
    "correlation": lambda d, n: Model(ahop.similarities.CorrelationSimilarity(), ahop.Softmax(4.0)),
    "sorensen": lambda d, n: Model(ahop.similarities.SorensenSimilarity(), ahop.Softmax(4.0)),
    "adaptive, detector": lambda d, n: Model(_shaken(ahop.AdaptiveSimilarity(d)), detector=_detector()),
    "isolated": lambda d, n: Model(_shaken(ahop.similarities.IsolatedSimilarity(n, d))),
    "pool, detector": lambda d, n: Model(
        _pool(ahop.EuclideanSimilarity(), ahop.similarities.CosineSimilarity()), detector=_detector()
    ),
    "pool of four, floor": lambda d, n: Model(
        _pool(
            ahop.DotSimilarity(),
            _evidence(d),
            ahop.similarities.ManhattanSimilarity(),
            _snv(ahop.EuclideanSimilarity()),
        ),
        ahop.Softmax(1.0, floor=0.1),
        detector=_detector(),
    ),
    "mixture, groups": lambda d, n: _with_groups(_evidence(d), d),
    "pool, groups, floor": lambda d, n: _with_groups(
        _pool(_evidence(d), ahop.similarities.CosineSimilarity()), d, floor=0.1
    ),
    "snv": lambda d, n: Model(_snv(ahop.EuclideanSimilarity()), ahop.Softmax(2.0)),
    "kernel": lambda d, n: Model(
        ahop.EuclideanSimilarity(), modulation=_shaken(ahop.modulations.KernelModulation(d)), detector=_detector()
    ),
    "sparsemax": lambda d, n: Model(ahop.EuclideanSimilarity(), ahop.separations.Sparsemax(2.0), detector=_detector()),
    "entmax": lambda d, n: Model(ahop.DotSimilarity(), ahop.separations.Entmax()),
    "top": lambda d, n: Model(ahop.EuclideanSimilarity(), ahop.separations.TopK(2)),
    "ghost": lambda d, n: Model(ahop.similarities.CosineSimilarity(), ahop.separations.GhostSoftmax(3.0, ghost=0.5)),
    "power": lambda d, n: Model(ahop.DotSimilarity(), ahop.separations.Power(2)),
}
# Those whose numbers all patterns share, which a store keeps.
SHARED = [name for name in MODELS if name != "isolated"]
SEPARATIONS: tuple[Separation, ...] = (ahop.Softmax(1.0), ahop.Softmax(4.0, floor=0.05), ahop.separations.Entmax())
