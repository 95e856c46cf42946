"""Expectation-maximization over unknown origins."""

from collections.abc import Callable
from dataclasses import dataclass
from math import log
from typing import final

import torch
from torch import Tensor

from ahop._core.blocks import blocks
from ahop._core.missing import median_shift
from ahop.fitting.corruption.em import STARTED
from ahop.fitting.corruption.mixture import FORMS, Form, MixtureFit, fit_mixture
from ahop.fitting.settings import DEFAULT, Settings
from ahop.memory.model import Model
from ahop.memory.paired import paired_scores
from ahop.memory.scoring import nearest, rank
from ahop.similarities.base import DecomposableSimilarity, Similarity
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
START_TEMPERATURES = (0.15, 0.5)
# Rounds at one, of a trial and of the end. The first are fits from scratch, in steps of a trial and of the end; later
# ones go on from the last fit, by so many steps.
TRIAL_ROUNDS, ORIGIN_ROUNDS, ROUNDS_ANEW = 2, 20, 3
ORIGIN_TRIAL_STEPS, STEPS_OF_EM, MORE_STEPS = 24, 50, STARTED + 12
# Origins that are looked at for each query, and those that are drawn to stand for all others.
BEST, DRAWN_ORIGINS = 8, 8
# Where more patterns are stored, origins are looked for among those that are near by distance, so many.
SEARCHED_PATTERNS, NEAREST = 4096, 256
# A shift that moved by less of the noise brings the same neighbors.
MOVED = 0.25
# Which start and which form is best is told by so many queries, or by so many of their entries if these are more.
TRIAL_QUERIES, ORIGIN_TRIAL_ENTRIES = 256, 1 << 13
# Starts that go on.
CLIMBED = 3
# Scores that are held at a time.
SCORE_BYTES = 1 << 26
# Rounds end where the odds of a query rise by less.
ORIGIN_TOLERANCE = 3e-4


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
class Shortlist:
    """Patterns that may be the origins of queries.

    Attributes:
        ids: (b, k + r) the k best, best first, and r that were drawn from all others.
        scores: (b, k) of the best.
        shares: (b, k + r) how likely each is the origin, if any pattern is; of those drawn, how much each stands for.
        log_mass: (b,) logarithm of what all patterns weigh, beside the best.
    """

    ids: Tensor
    scores: Tensor
    shares: Tensor
    log_mass: Tensor


@dataclass(frozen=True)
class Inference:
    """Result of learning without labels.

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
    patterns: Tensor,
    queries: Tensor,
    labeled: Pairs | None = None,
    told: Callable[[str], None] = lambda text: None,
    settings: Settings = DEFAULT,
) -> Inference:
    """The most likely mixture of queries (b, d) whose origins are hidden, and the posterior of these.

    Guesses by two distances, once the medians of all columns agree, are followed by rounds: how likely is each stored
    pattern the origin, and which mixture do these make most likely? Several starts and forms are tried on some of the
    queries; those whose memory explains others of them best go on, and the best of all goes on with all queries.

    Args:
        labeled: pairs whose origins are known, which count fully.
        told: hears what is being done.
    """
    problem = OriginProblem(patterns, queries, labeled, settings)
    some, others = problem.halves(max(TRIAL_QUERIES, ORIGIN_TRIAL_ENTRIES // patterns.shape[1]))

    def worth(mixture: MixtureFit) -> float:
        return float(others.log_odds(others.shortlist(mixture)).clamp_min(log(settings.unlabeled.unknown_share)).mean())

    starts = []
    for name, base in DISTANCES.items():
        guess = some.guess(some.by_distance(base()), START_TEMPERATURES[0])
        for form in FORMS:
            told(f"{name}, {form.name}")
            starts.append(some.maximize(guess, form, ORIGIN_TRIAL_STEPS))
    tried = []
    for start in sorted(starts, key=worth, reverse=True)[:CLIMBED]:
        told(f"on from {start.form.name}")
        tried.append(some.climb(start))
    told("all queries")
    return problem.settle(max(tried, key=worth))


@final
class OriginProblem:
    """Queries whose origins are hidden, and some whose are not."""

    def __init__(
        self, patterns: Tensor, queries: Tensor, labeled: Pairs | None = None, settings: Settings = DEFAULT
    ) -> None:
        self.patterns, self.queries, self.labeled, self.settings = patterns, queries, labeled, settings
        self.asked = settings.unlabeled
        self.copies = queries if labeled is None else torch.cat([queries, labeled.queries])
        self.shift = median_shift(patterns, queries)
        self._near: Tensor | None = None

    def halves(self, count: int) -> tuple["OriginProblem", "OriginProblem"]:
        """Some of the queries to learn from, and as many others to judge by; the same if there are too few."""
        some = self.queries[:: max(1, len(self.queries) // count)]
        if len(some) < 4:
            return self, self
        learned = OriginProblem(self.patterns, some[::2], self.labeled, self.settings)
        return learned, OriginProblem(self.patterns, some[1::2], None, self.settings)

    def climb(self, mixture: MixtureFit) -> MixtureFit:
        """From a first mixture to one that explains the queries as well as this start allows."""
        for temperature in START_TEMPERATURES[1:]:
            mixture = self.maximize(self.guess(self.shortlist(mixture), temperature), mixture.form, ORIGIN_TRIAL_STEPS)
        return self.settle(mixture, TRIAL_ROUNDS, steps=ORIGIN_TRIAL_STEPS).mixture

    def settle(
        self,
        mixture: MixtureFit,
        rounds: int = ORIGIN_ROUNDS,
        unknown: float | None = None,
        steps: int = STEPS_OF_EM,
    ) -> Inference:
        """Rounds from this mixture on, until the odds of the queries rise no more."""
        self._follow(mixture)
        unknown = self.asked.unknown_share if unknown is None else unknown
        found: Inference | None = None
        for number in range(rounds):
            listed = self.shortlist(mixture)
            odds = self.log_odds(listed)
            before, found = found, Inference(mixture, self.expect(listed, unknown), odds, unknown)
            if (
                before is not None
                and number > ROUNDS_ANEW
                and float((odds - before.log_odds).mean()) < ORIGIN_TOLERANCE
            ):
                break
            unknown = self.unknown_share(odds, unknown)
            mixture = (
                self.maximize(found.pairs, mixture.form, steps)
                if number < ROUNDS_ANEW
                else self.improve(found.pairs, mixture)
            )
        assert found is not None
        return found

    def by_distance(self, base: DecomposableSimilarity) -> Shortlist:
        """The nearest patterns, once the medians agree, in units of how far the best leads."""
        similarity, near, count = self._moved(base), self._neighbors(), min(BEST, len(self.patterns))
        if near is None:
            ranked = rank(Model(similarity), self.patterns, self.queries, count)
            ids, scores = ranked.ids, ranked.scores.double()
        else:
            best = paired_scores(similarity, self.patterns, near, self.queries).double().topk(count, dim=-1)
            ids, scores = near.gather(-1, best.indices), best.values
        lead = (scores[:, :1] - scores[:, 1:]).mean() if count > 1 else 1.0
        scores = scores / max(float(self.asked.lead_share * lead), 1e-30)
        return Shortlist(ids, scores, scores.softmax(-1), (scores - scores[:, :1]).logsumexp(-1))

    def shortlist(self, mixture: MixtureFit) -> Shortlist:
        variant, near, least = mixture.variant, self._neighbors(), self.asked.least_responsible_share
        found = []
        for part in blocks(len(self.queries), 32 * (len(self.patterns) if near is None else NEAREST), SCORE_BYTES):
            asked = self.queries[part]
            if near is None:
                found.append(_shortlist(variant.evidence(self.patterns, asked), None, least))
            else:
                scores = variant.paired_evidence(self.patterns, near[part], asked)
                found.append(_shortlist(scores, near[part], least))
        return Shortlist(*(torch.cat(column) for column in zip(*found, strict=True)))

    def listed(self, similarity: Similarity) -> Shortlist:
        """Shortlist by a similarity whose scores are log-likelihood ratios, among all patterns."""
        least = self.asked.least_responsible_share
        found = [
            _shortlist(similarity(self.patterns, self.queries[part]), None, least)
            for part in blocks(len(self.queries), 32 * len(self.patterns), SCORE_BYTES)
        ]
        return Shortlist(*(torch.cat(column) for column in zip(*found, strict=True)))

    def log_odds(self, listed: Shortlist) -> Tensor:
        """Logarithm of how much likelier each query is if some pattern, whichever, is its origin, (b,)."""
        return listed.scores[:, 0] + listed.log_mass - log(len(self.patterns))

    def guess(self, listed: Shortlist, temperature: float) -> SoftPairs:
        """Guess the origins among the best, with scores weighed by this factor."""
        return self._pairs(listed.ids, (temperature * listed.scores).softmax(-1))

    def expect(self, listed: Shortlist, unknown: float) -> SoftPairs:
        """The posterior of the origins among all patterns, and none of them."""
        known = torch.sigmoid(self.log_odds(listed) + log(1 - unknown) - log(unknown))
        return self._pairs(listed.ids, listed.shares * known.unsqueeze(-1))

    def maximize(self, pairs: SoftPairs, form: Form, steps: int = STEPS_OF_EM) -> MixtureFit:
        """The most likely mixture of this form."""
        return self._fitted(pairs, steps, form=form)

    def improve(self, pairs: SoftPairs, mixture: MixtureFit) -> MixtureFit:
        """Some steps from this mixture to the most likely one."""
        return self._fitted(pairs, MORE_STEPS, start=mixture)

    def _fitted(
        self, pairs: SoftPairs, steps: int, form: Form | None = None, start: MixtureFit | None = None
    ) -> MixtureFit:
        rows = self.patterns[pairs.origins], self.copies[pairs.queries], pairs.weights
        return fit_mixture(*rows, form, start, is_trusted=True, steps=steps, settings=self.settings.mixture)

    def _pairs(self, ids: Tensor, shares: Tensor) -> SoftPairs:
        kept = shares > self.asked.least_responsible_share
        kept[:, 0] = True  # of a query that says little, the best says most
        queries, column = kept.nonzero(as_tuple=True)
        return self.with_labels(SoftPairs(ids[queries, column], queries, shares[queries, column]))

    def _neighbors(self) -> Tensor | None:
        """Patterns (b, m) that are near to each query by distance, where all would be too many."""
        if len(self.patterns) > SEARCHED_PATTERNS and self._near is None:
            self._near = nearest(self._moved(EuclideanSimilarity()), self.patterns, self.queries, NEAREST)
        return self._near

    def _follow(self, mixture: MixtureFit) -> None:
        """Take neighbors by the shift of this mixture from now on."""
        shift, std = mixture.variant.shift.to(self.patterns), mixture.variant.std.to(self.patterns)
        if float(((shift - self.shift) / std).square().mean()) > MOVED**2:
            self.shift, self._near = shift, None

    def _moved(self, base: DecomposableSimilarity) -> DebiasedSimilarity:
        moved = DebiasedSimilarity(base, self.patterns.shape[1]).to(self.patterns)
        moved.bias.copy_(self.shift)
        return moved

    def unknown_share(self, odds: Tensor, unknown: float) -> float:
        """Share of the queries that come from no stored pattern, from what it was and what their odds say."""
        chances = torch.sigmoid(log(unknown) - log(1 - unknown) - odds)
        before = self.asked.unknown_queries, self.asked.known_queries
        share = (float(chances.sum()) + before[0]) / (len(odds) + before[0] + before[1])
        return min(share, self.asked.most_unknown_share)

    def with_labels(self, pairs: SoftPairs) -> SoftPairs:
        """These pairs, and those whose origins are known."""
        labeled = self.labeled
        if labeled is None:
            return pairs
        numbers = torch.arange(len(labeled), device=pairs.queries.device) + len(self.queries)
        return SoftPairs(
            torch.cat([pairs.origins, labeled.origins]),
            torch.cat([pairs.queries, numbers]),
            torch.cat([pairs.weights, torch.ones(len(numbers)).to(pairs.weights)]),
        )


def _shortlist(scores: Tensor, ids: Tensor | None, least: float) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Shortlist of scores (b, n), those of these patterns, the parts of a `Shortlist`.

    The best that are likely enough stand for themselves. Others together may be likely too, and fit worse: if nobody
    stood for them, copies would look less damaged than they are. Each that is drawn stands for an equal share of what
    is left.
    """
    scores = scores.double()
    best = scores.topk(min(BEST, scores.shape[1]), dim=-1)
    log_mass = (scores - best.values[:, :1]).logsumexp(-1)
    shares = (scores - best.values[:, :1] - log_mass.unsqueeze(-1)).exp()
    of_best = shares.gather(-1, best.indices)
    alone = of_best > least
    alone[:, 0] = True
    rest = shares.masked_fill(torch.zeros_like(shares, dtype=torch.bool).scatter(-1, best.indices, alone), 0).cumsum(-1)
    left = rest[:, -1:]
    count = (DRAWN_ORIGINS * left).ceil().clamp_min(1)
    number = torch.arange(DRAWN_ORIGINS, device=scores.device)
    drawn = torch.searchsorted(rest, (number + 0.5) / count * left).clamp_max(scores.shape[1] - 1)
    of_drawn = (left / count).expand_as(drawn).masked_fill(number >= count, 0)
    columns = torch.cat([best.indices, drawn], dim=-1)
    columns = columns if ids is None else ids.gather(-1, columns)
    return columns, best.values, torch.cat([of_best.masked_fill(~alone, 0), of_drawn], dim=-1), log_mass
