"""What can be learned from pairs, each by the fit that suits it."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from ahop._numbers import distinct
from ahop.fitting.additive import Counts, count_pairs
from ahop.fitting.convex import ConvexSolver
from ahop.fitting.mixture import Form, MixtureFit, best_form, fit_mixture
from ahop.fitting.nuisance import fit_nuisance
from ahop.fitting.pairs import GivenPairs
from ahop.likelihood import EvidenceSimilarity, LikelihoodSimilarity
from ahop.memory import AssociativeMemory
from ahop.similarities.adaptive import AdaptiveSimilarity
from ahop.similarities.base import DecomposableSimilarity, Similarity
from ahop.similarities.debiased import DebiasedSimilarity
from ahop.similarities.dot import DotSimilarity
from ahop.similarities.euclidean import EuclideanSimilarity
from ahop.similarities.manhattan import ManhattanSimilarity
from ahop.variants.base import Pairs

# A footprint is told apart from other patterns, and sorting is dear: it sees this many pairs, patterns, dimensions.
FOOTPRINT_PAIRS, FOOTPRINT_PATTERNS, FOOTPRINT_DIMENSIONS = 256, 256, 256
# Of each pair's rivals, those that are closest are worth learning from.
HARDEST = 4


@dataclass(frozen=True)
class Lesson:
    """Pairs to learn from, and some stored patterns to tell the origins from.

    Attributes:
        patterns: (p, d) a part of the stored ones that holds every origin.
        origins: (m,) rows of it.
        copies: (m, d).
        weights: (m,) how much each pair counts.
        given_form: of the mixture, if it is known already.
    """

    patterns: Tensor
    origins: Tensor
    copies: Tensor
    weights: Tensor
    given_form: Form | None = None

    def __len__(self) -> int:
        return len(self.copies)

    @property
    def originals(self) -> Tensor:
        return self.patterns[self.origins]

    @cached_property
    def form(self) -> Form:
        if self.given_form is not None:
            return self.given_form
        return best_form(self.originals.double(), self.copies.double(), self.weights.double())

    @cached_property
    def mixture(self) -> MixtureFit:
        return fit_mixture(self.originals, self.copies, self.weights, self.form)

    @cached_property
    def trusted(self) -> Tensor:
        """The weights of the pairs, less where a copy looks like it stands beside the wrong origin."""
        return self.weights * self.mixture.trust.to(self.weights)

    @cached_property
    def counts(self) -> Counts:
        """How often values meet: what all additive tables are made of."""
        return count_pairs(self.originals, self.copies, self.trusted, self.mixture.variant.shift)

    def part(self, rows: Tensor) -> "Lesson":
        return Lesson(self.patterns, self.origins[rows], self.copies[rows], self.weights[rows], self.form)

    def weighted(self, weights: Tensor) -> "Lesson":
        """The same pairs as they count for somebody else, to whom another form may fit."""
        return Lesson(self.patterns, self.origins, self.copies, weights)


@dataclass(frozen=True)
class Candidate:
    """One way to be similar: its name, and how it is learned; up to how many dimensions, if that is dear."""

    name: str
    learn: Callable[[Lesson], Similarity]
    is_fixed: bool = False
    most_dimensions: int | None = None

    def suits(self, lesson: Lesson) -> bool:
        return self.most_dimensions is None or lesson.copies.shape[1] <= self.most_dimensions


def _additive(rank: int) -> Callable[[Lesson], Similarity]:
    return lambda lesson: lesson.counts.similarity(rank)


def _mixture(lesson: Lesson) -> Similarity:
    return EvidenceSimilarity(lesson.mixture.variant)


def _nuisance(lesson: Lesson) -> Similarity:
    return LikelihoodSimilarity(fit_nuisance(lesson.originals, lesson.copies, weights=lesson.trusted))


def debiased(lesson: Lesson) -> DebiasedSimilarity:
    """The distance once the shift is off: cheap enough to ask of very many patterns."""
    return _moved(EuclideanSimilarity(), lesson)


def _footprint(lesson: Lesson) -> Similarity:
    """The paper's footprints once the bias is off, told apart from the origins' closest rivals."""
    bases: list[DecomposableSimilarity] = [_moved(EuclideanSimilarity(), lesson), _moved(DotSimilarity(), lesson)]
    similarity = AdaptiveSimilarity(lesson.copies.shape[1], bases)
    kept = (lesson.trusted > 0.5 * lesson.trusted.max()).nonzero().squeeze(-1)[:FOOTPRINT_PAIRS]
    part = lesson.part(kept)
    rows = _rivals(debiased(lesson), part)
    memory = AssociativeMemory(part.patterns[rows], similarity)
    place = torch.searchsorted(rows, part.origins)
    ConvexSolver(tolerance=1e-4).solve(memory, GivenPairs(Pairs(place, part.copies)), progress=False)
    return similarity


def _moved(base: DecomposableSimilarity, lesson: Lesson) -> DebiasedSimilarity:
    moved = DebiasedSimilarity(base, lesson.copies.shape[1])
    moved.bias.copy_(lesson.mixture.variant.shift)
    return moved


def _rivals(similarity: Similarity, lesson: Lesson) -> Tensor:
    """Rows of the patterns to tell origins from: these themselves, and those that their copies are close to."""
    closest = similarity(lesson.patterns, lesson.copies).topk(min(HARDEST, len(lesson.patterns)), dim=-1).indices
    origins, _ = distinct(lesson.origins)
    others, _ = distinct(closest[~torch.isin(closest, origins)])
    return distinct(torch.cat([origins, others[:FOOTPRINT_PATTERNS]]))[0]


# In the order in which they are preferred where pairs cannot tell them apart: the more they know, the earlier.
CANDIDATES = (
    Candidate("mixture", _mixture),
    Candidate("additive", _additive(rank=1)),
    Candidate("additive by dimension", _additive(rank=4)),
    Candidate("debiased", debiased),
    Candidate("euclidean", lambda lesson: EuclideanSimilarity(), is_fixed=True),
    Candidate("nuisance", _nuisance),
    Candidate("footprint", _footprint, most_dimensions=FOOTPRINT_DIMENSIONS),
    Candidate("manhattan", lambda lesson: ManhattanSimilarity(), is_fixed=True),
    Candidate("dot", lambda lesson: DotSimilarity(), is_fixed=True),
)
