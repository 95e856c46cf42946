"""The candidates that `fit` chooses among: learned similarities and standard metrics."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import e

import torch
from torch import Tensor

from ahop._core.tensors import distinct
from ahop.errors import InvalidTypeError
from ahop.fitting.corruption.nuisance import fit_nuisance
from ahop.fitting.corruption.training_set import TrainingSet
from ahop.fitting.pairs import GivenPairs
from ahop.fitting.solvers.newton import ConvexSolver
from ahop.memory.likelihood import EvidenceSimilarity, LikelihoodSimilarity
from ahop.memory.memory import AssociativeMemory
from ahop.similarities.adaptive import AdaptiveSimilarity
from ahop.similarities.aligned import AlignedSimilarity
from ahop.similarities.base import DecomposableSimilarity, Similarity
from ahop.similarities.callable import CallableSimilarity
from ahop.similarities.correlation import CorrelationSimilarity
from ahop.similarities.cosine import CosineSimilarity
from ahop.similarities.debiased import DebiasedSimilarity
from ahop.similarities.dot import DotSimilarity
from ahop.similarities.euclidean import EuclideanSimilarity
from ahop.similarities.manhattan import ManhattanSimilarity
from ahop.similarities.sorensen import SorensenSimilarity
from ahop.similarities.transformed import TransformedSimilarity
from ahop.transforms.base import Transform
from ahop.transforms.difference import DifferenceTransform
from ahop.transforms.power import PowerTransform
from ahop.transforms.snv import SNVTransform
from ahop.variants.base import Pairs

# Fitting a footprint compares many patterns and sorts, which is expensive: at most so many pairs, patterns, dimensions.
FOOTPRINT_PAIRS, FOOTPRINT_PATTERNS, FOOTPRINT_DIMENSIONS = 256, 256, 256
# Of each pair's rivals, those that are closest are worth learning from.
HARDEST = 4
# Below the least value by this share of the range nothing is heard at all.
MARGIN = 0.01


@dataclass(frozen=True)
class Candidate:
    """One way to be similar.

    Attributes:
        learn: the similarity from pairs.
        is_fixed: nothing is learned.
        suits: whether it is worth trying on these pairs.
        is_evidence: its scores are log-likelihoods, or distances that are read as such; else they are calibrated first.
        is_brought: by the user, who wants it judged to the end.
    """

    name: str
    learn: Callable[[TrainingSet], Similarity]
    is_fixed: bool = False
    suits: Callable[[TrainingSet], bool] = lambda training: True
    is_evidence: bool = True
    is_brought: bool = False


def own_candidates(brought: Sequence[object]) -> list[Candidate]:
    """Similarities, or functions of (patterns, queries), that somebody brought."""
    found: list[Candidate] = []
    for each in brought:
        if isinstance(each, Similarity):
            similarity, name = each, type(each).__name__
        elif callable(each):
            name = getattr(each, "__name__", type(each).__name__)
            similarity = CallableSimilarity(each, name)
        else:
            raise InvalidTypeError(
                f"`candidates` must be similarities, or functions (patterns, queries) -> scores; got {each!r}. To "
                "choose among those of ahop, name them by `similarity`."
            )
        taken = [candidate.name for candidate in (*CANDIDATES, *found)]
        name = name if name not in taken else f"{name} {len(found) + 1}"
        found.append(Candidate(name, _constant(similarity), is_fixed=True, is_evidence=False, is_brought=True))
    return found


def suitable(candidates: Sequence[Candidate], training: TrainingSet) -> list[Candidate]:
    """Those worth trying, in the order in which they are preferred: curves move as a whole."""
    found = [candidate for candidate in candidates if candidate.suits(training)]
    return sorted(found, key=lambda each: each.name != "nuisance") if training.are_curves else found


def _constant(similarity: Similarity) -> Callable[[TrainingSet], Similarity]:
    return lambda training: similarity


def _additive(rank: int) -> Callable[[TrainingSet], Similarity]:
    return lambda training: training.counts.similarity(rank)


def _mixture(training: TrainingSet) -> Similarity:
    return EvidenceSimilarity(training.mixture.variant)


def _nuisance(training: TrainingSet) -> Similarity:
    pairs = training.originals, training.copies
    settings = training.settings.candidates
    return LikelihoodSimilarity(
        fit_nuisance(*pairs, weights=training.trusted, chosen=training.nuisance, settings=settings)
    )


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


def _behind(transform: Transform, learn: Callable[[TrainingSet], Similarity]) -> Callable[[TrainingSet], Similarity]:
    return lambda training: TransformedSimilarity(learn(training.transformed(transform)), transform)


def _strengths(
    base: Callable[[], Similarity], exponent: float = 1.0, missing: float | None = 0.0
) -> Callable[[TrainingSet], Similarity]:
    """Compare strengths above the least one, without the common offset; a gap was not heard at all."""

    def learn(training: TrainingSet) -> Similarity:
        values = torch.cat([training.patterns.flatten(), training.copies.flatten()])
        known = values[~values.isnan()]
        low, high = (float(known.min()), float(known.max())) if len(known) else (0.0, 1.0)
        margin = MARGIN * (high - low) or 1.0
        transform = PowerTransform(low - margin, max(high, low + margin), exponent, missing)
        aligned = AlignedSimilarity(TransformedSimilarity(base(), transform), training.copies.shape[1])
        aligned.offset.fill_(_offset(training))
        return aligned

    return learn


def _offset(training: TrainingSet) -> float:
    """Estimate the offset of copies from their originals: one number for all dimensions, which few pairs tell well."""
    difference = (training.copies - training.originals)[training.trusted > 0.5 * training.trusted.max()]
    return float(difference.nanmedian().nan_to_num(0)) if difference.numel() else 0.0


def _has_gaps(training: TrainingSet) -> bool:
    return training.missing > training.settings.candidates.least_missing_share


def _is_whole(training: TrainingSet) -> bool:
    return training.missing <= training.settings.candidates.most_missing_share


def _fills_tables(training: TrainingSet) -> bool:
    least = training.settings.candidates.table_pairs * training.copies.shape[1]
    return float((~training.copies.isnan()).sum()) >= least


def _fills_footprints(training: TrainingSet) -> bool:
    told = training.settings.candidates.footprint_pairs * len(training)
    return training.copies.shape[1] <= min(FOOTPRINT_DIMENSIONS, told)


def _are_no_curves(training: TrainingSet) -> bool:
    return not training.are_curves


def _are_curves(training: TrainingSet) -> bool:
    return training.are_curves


SNV, DIFFERENCE = SNVTransform(), DifferenceTransform()

# In the order in which they are preferred where pairs cannot tell them apart: the more they know, the earlier.
CANDIDATES = (
    Candidate("mixture", _mixture),
    Candidate("additive", _additive(rank=1)),
    Candidate("additive_per_dimension", _additive(rank=4), suits=_fills_tables),
    Candidate("debiased", debiased),
    Candidate("euclidean", lambda training: EuclideanSimilarity(), is_fixed=True),
    Candidate("nuisance", _nuisance, suits=_is_whole),
    Candidate("snv_nuisance", _behind(SNV, _nuisance), suits=_are_curves),
    Candidate("difference_nuisance", _behind(DIFFERENCE, _nuisance), suits=_are_curves),
    Candidate("snv_mixture", _behind(SNV, _mixture), suits=_are_curves),
    Candidate("difference_mixture", _behind(DIFFERENCE, _mixture), suits=_are_curves),
    Candidate("footprint", _footprint, suits=_fills_footprints),
    Candidate("sorensen", _strengths(SorensenSimilarity, missing=None), suits=_are_no_curves, is_evidence=False),
    Candidate("heard_sorensen", _strengths(SorensenSimilarity), suits=_has_gaps, is_evidence=False),
    Candidate("powed_sorensen", _strengths(SorensenSimilarity, e), suits=_has_gaps, is_evidence=False),
    Candidate("heard_cosine", _strengths(CosineSimilarity), suits=_has_gaps, is_evidence=False),
    Candidate("powed_cosine", _strengths(CosineSimilarity, e), suits=_has_gaps, is_evidence=False),
    Candidate("manhattan", lambda training: ManhattanSimilarity(), is_fixed=True),
    Candidate("dot", lambda training: DotSimilarity(), is_fixed=True),
    Candidate("cosine", lambda training: CosineSimilarity(), is_fixed=True, is_evidence=False),
    Candidate("correlation", lambda training: CorrelationSimilarity(), is_fixed=True, is_evidence=False),
)
