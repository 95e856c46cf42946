"""Which stored pattern did each query come from? Expectation-maximization, where nobody has said."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import product
from math import log
from typing import final

import torch
from torch import Tensor

from ahop.fitting.mixture import FORMS, Form, MixtureFit, fit_mixture
from ahop.likelihood import EvidenceSimilarity
from ahop.model import Model
from ahop.ranking import Ranked
from ahop.scoring import rank
from ahop.similarities.base import DecomposableSimilarity
from ahop.similarities.debiased import DebiasedSimilarity
from ahop.similarities.euclidean import EuclideanSimilarity
from ahop.similarities.manhattan import ManhattanSimilarity
from ahop.variants.base import Pairs

# What a guess is made by.
DISTANCES: dict[str, type[DecomposableSimilarity]] = {
    "euclidean": EuclideanSimilarity,
    "manhattan": ManhattanSimilarity,
}
# Inverse temperatures of the rounds that follow a guess, which may be poor.
TEMPERATURES = (0.15, 0.5)
# Rounds at one, and steps of each round's fit, of a trial and of the end.
TRIAL_ROUNDS, ROUNDS = 2, 6
TRIAL_STEPS, STEPS = 24, 50
# Origins that are looked at for each query, and what is too unlikely to count.
CANDIDATES, LEAST_SHARE = 8, 0.02
# Where more patterns are stored, origins are looked for among those that are near by distance, so many.
MANY_PATTERNS, NEAR = 4096, 256
# Which start and which form is best is told by so many queries, or by so many of their entries if these are more.
TRIAL_QUERIES, TRIAL_ENTRIES = 256, 1 << 13
# The share of queries that come from no stored pattern: where it starts, its prior in queries, and the most of it.
UNKNOWN, UNKNOWN_PRIOR, KNOWN_PRIOR, MOST_UNKNOWN = 0.05, 1.0, 9.0, 0.8
# By this share of the mean lead of the best over its rivals, a distance tells origins apart.
LEAD = 0.5
# Rounds end where the odds of a query rise by less.
TOLERANCE = 1e-3


@dataclass(frozen=True)
class SoftPairs:
    """Queries beside stored patterns that may be their origins.

    Attributes:
        origins: (m,) rows of the patterns.
        queries: (m,) numbers of the queries; those with a label come behind the others.
        weights: (m,) how likely each is the origin; one where a label says so.
    """

    origins: Tensor
    queries: Tensor
    weights: Tensor


@dataclass(frozen=True)
class Inference:
    """What was learned without labels.

    Attributes:
        mixture: the corruption.
        pairs: which origins the queries may have.
        log_odds: (b,) logarithm of how much likelier each query is if it comes from a stored pattern, than from none.
        unknown: the share of the queries that come from none.
    """

    mixture: MixtureFit
    pairs: SoftPairs
    log_odds: Tensor
    unknown: float


@torch.no_grad()
def infer_origins(
    patterns: Tensor, queries: Tensor, labeled: Pairs | None = None, told: Callable[[str], None] = lambda text: None
) -> Inference:
    """The most likely mixture of queries (b, d) whose origins are hidden, and the posterior of these.

    Guesses by two distances, once the medians of all columns agree, are followed by rounds: how likely is each stored
    pattern the origin, and which mixture do these make most likely? Several starts and forms are tried on some of the
    queries; the one whose memory explains others of them best goes on with all.

    Args:
        labeled: pairs whose origins are known, which count fully.
        told: hears what is being done.
    """
    problem = OriginProblem(patterns, queries, labeled)
    some, others = problem.halves(max(TRIAL_QUERIES, TRIAL_ENTRIES // patterns.shape[1]))
    best: tuple[float, MixtureFit] | None = None
    for (name, base), form in product(DISTANCES.items(), FORMS):
        told(f"{name}, {form.name}")
        found = some.climb(base(), form)
        worth = float(others.log_odds(others.ranked(found)).clamp_min(log(UNKNOWN)).mean())
        if best is None or worth > best[0]:
            best = worth, found
    assert best is not None
    told("all queries")
    return problem.settle(best[1])


@final
class OriginProblem:
    """Queries whose origins are hidden, and some whose are not."""

    def __init__(self, patterns: Tensor, queries: Tensor, labeled: Pairs | None = None) -> None:
        self.patterns, self.queries, self.labeled = patterns, queries, labeled
        self.copies = queries if labeled is None else torch.cat([queries, labeled.queries])
        self.shift = (queries.nanmedian(0).values - patterns.nanmedian(0).values).nan_to_num(0)
        self._near: Tensor | None = None

    def halves(self, count: int) -> tuple["OriginProblem", "OriginProblem"]:
        """Some of the queries to learn from, and as many others to judge by; the same if there are too few."""
        some = self.queries[:: max(1, len(self.queries) // count)]
        if len(some) < 4:
            return self, self
        return OriginProblem(self.patterns, some[::2], self.labeled), OriginProblem(self.patterns, some[1::2])

    def climb(self, base: DecomposableSimilarity, form: Form) -> MixtureFit:
        """From a guess by distance to a mixture of this form."""
        ranked = self.by_distance(base)
        for temperature in TEMPERATURES:
            mixture = self.maximize(self.expect(ranked, temperature), form, TRIAL_STEPS)
            ranked = self.ranked(mixture)
        return self.settle(mixture, TRIAL_ROUNDS, UNKNOWN, TRIAL_STEPS).mixture

    def settle(
        self, mixture: MixtureFit, rounds: int = ROUNDS, unknown: float = UNKNOWN, steps: int = STEPS
    ) -> Inference:
        """Rounds from this mixture on, until the odds of the queries rise no more."""
        self.shift, self._near = mixture.variant.shift.to(self.patterns), None
        found: Inference | None = None
        for _ in range(rounds):
            ranked = self.ranked(mixture)
            odds = self.log_odds(ranked)
            before, found = found, Inference(mixture, self.expect(ranked, 1.0, unknown), odds, unknown)
            if before is not None and float((odds - before.log_odds).mean()) < TOLERANCE:
                break
            unknown = self._unknown(odds, unknown)
            mixture = self.maximize(found.pairs, mixture.form, steps)
        assert found is not None
        return found

    def by_distance(self, base: DecomposableSimilarity) -> Ranked:
        """The nearest patterns, once the medians agree, in units of how far the best leads."""
        ranked = rank(Model(self._moved(base)), self.patterns, self.queries, min(CANDIDATES, len(self.patterns)))
        lead = (ranked.scores[:, :1] - ranked.scores[:, 1:]).double().mean() if len(self.patterns) > 1 else 1.0
        return replace(ranked, scores=ranked.scores / max(float(LEAD * lead), 1e-30))

    def ranked(self, mixture: MixtureFit) -> Ranked:
        variant, k = mixture.variant, min(CANDIDATES, len(self.patterns))
        if len(self.patterns) <= MANY_PATTERNS:
            return rank(Model(EvidenceSimilarity(variant)), self.patterns, self.queries, k)
        if self._near is None:
            self._near = rank(Model(self._moved(EuclideanSimilarity())), self.patterns, self.queries, NEAR).ids
        best = variant.paired_evidence(self.patterns, self._near, self.queries).sort(dim=-1, descending=True)
        mass = (best.values - best.values[:, :1]).double().logsumexp(-1)
        ids = self._near.gather(-1, best.indices[:, :k])
        return Ranked(ids, best.values[:, :k], mass, torch.full_like(mass, NEAR), len(self.patterns))

    def log_odds(self, ranked: Ranked) -> Tensor:
        """Logarithm of how much likelier each query is if some pattern, whichever, is its origin, (b,)."""
        return ranked.scores[:, 0].double() + ranked.log_mass - log(len(self.patterns))

    def expect(self, ranked: Ranked, temperature: float, unknown: float | None = None) -> SoftPairs:
        """The posterior of the origins: among the best alone, or among all patterns and none of them."""
        shares = (temperature * ranked.scores.double()).softmax(-1)
        if unknown is not None:
            of_best = (ranked.scores - ranked.scores[:, :1]).double().logsumexp(-1) - ranked.log_mass
            known = torch.sigmoid(self.log_odds(ranked) + log(1 - unknown) - log(unknown))
            shares = shares * (of_best.exp() * known).unsqueeze(-1)
        kept = shares > LEAST_SHARE
        kept[:, 0] = True  # of a query that says little, the best says most
        queries, column = kept.nonzero(as_tuple=True)
        found = SoftPairs(ranked.ids[queries, column], queries, shares[queries, column])
        return found if self.labeled is None else self._with_labels(found, self.labeled)

    def maximize(self, pairs: SoftPairs, form: Form, steps: int = STEPS) -> MixtureFit:
        """The most likely mixture of this form."""
        rows = self.patterns[pairs.origins], self.copies[pairs.queries], pairs.weights
        return fit_mixture(*rows, form=form, is_trusted=True, steps=steps)

    def _moved(self, base: DecomposableSimilarity) -> DebiasedSimilarity:
        moved = DebiasedSimilarity(base, self.patterns.shape[1]).to(self.patterns)
        moved.bias.copy_(self.shift)
        return moved

    def _unknown(self, odds: Tensor, unknown: float) -> float:
        chances = torch.sigmoid(log(unknown) - log(1 - unknown) - odds)
        share = (float(chances.sum()) + UNKNOWN_PRIOR) / (len(odds) + UNKNOWN_PRIOR + KNOWN_PRIOR)
        return min(share, MOST_UNKNOWN)

    def _with_labels(self, pairs: SoftPairs, labeled: Pairs) -> SoftPairs:
        numbers = torch.arange(len(labeled), device=pairs.queries.device) + len(self.queries)
        return SoftPairs(
            torch.cat([pairs.origins, labeled.origins]),
            torch.cat([pairs.queries, numbers]),
            torch.cat([pairs.weights, torch.ones(len(numbers)).to(pairs.weights)]),
        )
