"""Candidates for data of any kind: learned similarities and standard metrics."""

from collections.abc import Callable

import torch
from torch import Tensor

from ahop._core.tensors import distinct
from ahop.fitting.choosing.candidate import Candidate
from ahop.fitting.corruption.forward import fit_forward
from ahop.fitting.corruption.nuisance import fit_nuisance
from ahop.fitting.corruption.training_set import TrainingSet
from ahop.fitting.pairs import GivenPairs
from ahop.fitting.solvers.newton import ConvexSolver
from ahop.memory.likelihood import EvidenceSimilarity, LikelihoodSimilarity
from ahop.memory.memory import AssociativeMemory
from ahop.similarities.adaptive import AdaptiveSimilarity
from ahop.similarities.base import DecomposableSimilarity, Similarity
from ahop.similarities.correlation import CorrelationSimilarity
from ahop.similarities.cosine import CosineSimilarity
from ahop.similarities.debiased import DebiasedSimilarity
from ahop.similarities.dot import DotSimilarity
from ahop.similarities.euclidean import EuclideanSimilarity
from ahop.similarities.manhattan import ManhattanSimilarity
from ahop.variants.base import Pairs

# Fitting a footprint compares many patterns and sorts, which is expensive: at most so many pairs, patterns, dimensions.
FOOTPRINT_PAIRS, FOOTPRINT_PATTERNS, FOOTPRINT_DIMENSIONS = 256, 256, 256
# Of each pair's rivals, those that are closest are worth learning from.
HARDEST = 4


def _additive(rank: int) -> Callable[[TrainingSet], Similarity]:
    return lambda training: training.counts.similarity(rank)


def learn_mixture(training: TrainingSet) -> Similarity:
    return EvidenceSimilarity(training.mixture.variant)


def learn_nuisance(training: TrainingSet) -> Similarity:
    pairs = training.originals, training.copies
    settings = training.settings.candidates
    return LikelihoodSimilarity(
        fit_nuisance(*pairs, weights=training.trusted, chosen=training.nuisance, settings=settings)
    )


def _learn_forward(training: TrainingSet) -> Similarity:
    return fit_forward(training.originals, training.copies, training.weights, training.forward)


def debiased(training: TrainingSet) -> DebiasedSimilarity:
    """The distance once the shift is off: cheap enough to ask of very many patterns."""
    return _moved(EuclideanSimilarity(), training)


def _footprint(training: TrainingSet) -> Similarity:
    """The paper's footprints once the bias is off, told apart from the origins' closest rivals."""
    bases: list[DecomposableSimilarity] = [_moved(EuclideanSimilarity(), training), _moved(DotSimilarity(), training)]
    similarity = AdaptiveSimilarity(training.copies.shape[1], bases)
    kept = (training.trusted > 0.5 * training.trusted.max()).nonzero().squeeze(-1)[:FOOTPRINT_PAIRS]
    origins, copies = training.origins[kept], training.copies[kept]
    rows = _rivals(debiased(training), training.patterns, origins, copies)
    memory = AssociativeMemory(training.patterns[rows], similarity)
    place = torch.searchsorted(rows, origins)
    ConvexSolver(tolerance=1e-4).solve(memory, GivenPairs(Pairs(place, copies)), progress=False)
    return similarity


def _moved(base: DecomposableSimilarity, training: TrainingSet) -> DebiasedSimilarity:
    moved = DebiasedSimilarity(base, training.copies.shape[1])
    moved.bias.copy_(training.mixture.variant.shift)
    return moved


def _rivals(similarity: Similarity, patterns: Tensor, origins: Tensor, copies: Tensor) -> Tensor:
    """Rows of the patterns to tell origins from: these themselves, and those that their copies are close to."""
    closest = similarity(patterns, copies).topk(min(HARDEST, len(patterns)), dim=-1).indices
    own, _ = distinct(origins)
    others, _ = distinct(closest[~torch.isin(closest, own)])
    return distinct(torch.cat([own, others[:FOOTPRINT_PATTERNS]]))[0]


def _is_whole(training: TrainingSet) -> bool:
    return training.missing <= training.settings.candidates.most_missing_share


def _fills_tables(training: TrainingSet) -> bool:
    least = training.settings.candidates.table_pairs * training.copies.shape[1]
    return float((~training.copies.isnan()).sum()) >= least


def _fills_footprints(training: TrainingSet) -> bool:
    told = training.settings.candidates.footprint_pairs * len(training)
    return training.copies.shape[1] <= min(FOOTPRINT_DIMENSIONS, told)


LEARNED = (
    Candidate("mixture", learn_mixture),
    Candidate("additive", _additive(rank=1)),
    Candidate("additive_per_dimension", _additive(rank=4), suits=_fills_tables),
    Candidate("debiased", debiased),
    Candidate("euclidean", lambda training: EuclideanSimilarity(), is_fixed=True),
    Candidate("nuisance", learn_nuisance, suits=_is_whole),
)
FORWARD = Candidate(
    "forward", _learn_forward, suits=lambda training: training.has_other_columns, takes_other_columns=True
)
FOOTPRINT = Candidate("footprint", _footprint, suits=_fills_footprints)
METRICS = (
    Candidate("manhattan", lambda training: ManhattanSimilarity(), is_fixed=True),
    Candidate("dot", lambda training: DotSimilarity(), is_fixed=True),
    Candidate("cosine", lambda training: CosineSimilarity(), is_fixed=True, is_evidence=False),
    Candidate("correlation", lambda training: CorrelationSimilarity(), is_fixed=True, is_evidence=False),
)
