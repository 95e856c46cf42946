"""Learn from labeled lists, or from lists alone."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from ahop._core.arrays import to_numpy
from ahop._core.labels import Label
from ahop.fitting.choosing.posterior import Rivals, fit_posterior
from ahop.fitting.settings import DEFAULT
from ahop.fitting.solvers.logistic import logistic
from ahop.memory.unknown import Evidence, UnknownDetector
from ahop.operate.attaching.levels import Calibration, Levels, designed, hits_of, shares, watched
from ahop.operate.attaching.lists import Lists
from ahop.operate.mixture import Mixture

# Of the slopes of a detector, in pairs; and of what is learned on top of it.
DETECTOR_PULL, LATER_PULL = 1.0, 1.0
# Folds that a report is made of.
REPORT_FOLDS = 5
# Lists that later ones are compared with, at most.
MOST_WATCHED = 512


@dataclass(frozen=True)
class Bank:
    """Lists, one answer longer than is looked at, as one is left out to see a stranger; and how often ids are answered.

    Attributes:
        lists: (m, k + 1).
        hubs: (m, k + 1) how often each id is answered to the others, in logarithms.
    """

    lists: Lists
    hubs: Tensor

    def __len__(self) -> int:
        return len(self.lists)

    @property
    def looked_at(self) -> "Bank":
        width = self.hubs.shape[1] - 1
        return Bank(self.lists.first(width), self.hubs[:, :width])

    def rows(self, which: Tensor) -> "Bank":
        return Bank(self.lists.rows(which), self.hubs[which])

    def without(self, places: Tensor) -> "Bank":
        """Lists without these answers (m,): the next ones move up."""
        kept = torch.arange(self.hubs.shape[1] - 1).repeat(len(self), 1)
        kept += (kept >= places.unsqueeze(-1)).long()
        return Bank(self.lists.at(kept), self.hubs.gather(1, kept))

    def log_odds(self, levels: Levels) -> Tensor:
        return levels.log_odds(self.lists, self.hubs)

    def features(self, levels: Levels) -> Tensor:
        return Evidence.of(self.log_odds(levels)).features()


@dataclass(frozen=True)
class Lesson:
    """Labeled queries and a log.

    Attributes:
        labeled: lists of the labeled queries.
        wanted: the right ids of each; none where no answer is right.
        logged: lists of the queries without labels.
        unknown_rate: how many queries have no right answer; None to learn it.
        plain: levels before anything was learned from labels.
    """

    labeled: Bank
    wanted: Sequence[frozenset[Label]]
    logged: Bank
    unknown_rate: float | None
    plain: Levels

    @classmethod
    def of(
        cls, labeled: Lists, wanted: Sequence[frozenset[Label]], logged: Lists, unknown_rate: float | None
    ) -> "Lesson":
        k = labeled.scores.shape[1] - 1
        lists = [labeled.first(k), logged.first(k)]
        scores = torch.cat([each.scores for each in lists])
        known = scores.masked_fill(torch.isneginf(scores), torch.nan)
        spread = float((known - known.nanmean(-1, keepdim=True)).square().nanmean(-1).sqrt().nanmean())
        center = float(known.nanmedian().nan_to_num(0))
        plain = Levels(center, spread if spread > 0 else 1.0, totals=_totals(lists))
        banks = [Bank(each, plain.hubs(each, own=k)) for each in (labeled, logged)]
        return cls(banks[0], wanted, banks[1], unknown_rate, plain)

    @cached_property
    def hits(self) -> Tensor:
        """Right answers of the labeled queries, (m, k + 1)."""
        return hits_of(self.labeled.lists, self.wanted)

    @property
    def k(self) -> int:
        return self.labeled.hubs.shape[1] - 1

    def rows(self, which: Tensor) -> "Lesson":
        """Keep some of the labeled queries alone."""
        return replace(self, labeled=self.labeled.rows(which), wanted=[self.wanted[row] for row in which.tolist()])

    def learned(self) -> Calibration:
        levels, floor = self._weighed()
        detector = _detector(self._known(levels), self._strange(levels))
        bare = Calibration(levels, floor, detector, None, torch.empty(0, 0))
        labeled = self.labeled.looked_at
        odds = labeled.log_odds(levels)
        self._set_rate(bare, odds)
        seen = torch.cat([_seen(bare, each) for each in (labeled, self.logged.looked_at)])
        return replace(bare, relevance=self._relevance(bare, odds), reference=seen[:: -(-len(seen) // MOST_WATCHED)])

    def held_out(self) -> tuple[float, float]:
        """The share of right first answers, and their mean probability: each fold answered by the others."""
        right, said, folds = 0.0, 0.0, torch.arange(len(self.wanted)) % REPORT_FOLDS
        for fold in range(min(REPORT_FOLDS, len(self.wanted))):
            mine = (folds == fold).nonzero().squeeze(-1)
            others = self.rows((folds != fold).nonzero().squeeze(-1)).learned()
            odds = self.labeled.rows(mine).looked_at.log_odds(others.levels)
            posterior, first = others.posterior(odds).max(-1)
            right += float(self.hits[mine].gather(1, first.unsqueeze(-1)).sum())
            said += float((posterior * (1 - others.unknown(odds))).sum())
        count = max(1, len(self.wanted))
        return right / count, said / count

    def _weighed(self) -> tuple[Levels, float]:
        """Each right answer told apart from the others of its list, by its score and by how often it is answered."""
        queries, places = self.hits[:, : self.k].nonzero(as_tuple=True)
        if not len(queries):
            return self.plain, 0.0
        labeled = self.labeled.looked_at
        there = torch.isfinite(labeled.lists.scores)
        near = self.plain.closenesses(labeled.lists).masked_fill(~there, 0)
        columns = torch.arange(self.k).expand(len(queries), -1)
        # The right one first, then the others in their order.
        order = torch.where(columns == 0, places.unsqueeze(-1), columns - (columns <= places.unsqueeze(-1)).long())
        members = [each[queries].gather(1, order) for each in (near, -labeled.hubs, labeled.hubs)]
        log_counts = torch.zeros_like(members[0]).masked_fill(~there[queries].gather(1, order), -torch.inf)
        trust = 1 / self.hits[:, : self.k].sum(-1)[queries].double()
        rivals = Rivals(torch.stack([each - each.amax(-1, keepdim=True) for each in members]), log_counts, self.k)
        found = fit_posterior(rivals, trust, DEFAULT.pool.weight_nats, torch.tensor([1.0, 0.0, 0.0]))
        near_weight, rare, often = found.weights.tolist()
        return replace(self.plain, closeness=near_weight, hubness=rare - often), found.floor

    def _known(self, levels: Levels) -> Tensor:
        """Features of lists that hold a right answer; without labels, of all."""
        if not len(self.wanted):
            return self.logged.looked_at.features(levels)
        return self.labeled.looked_at.features(levels)[self.hits[:, : self.k].any(-1)]

    def _strange(self, levels: Levels) -> Tensor:
        """Features of lists without one: those labeled so, and those whose only right answer was left out."""
        if not len(self.wanted):
            return self.logged.without(torch.zeros(len(self.logged), dtype=torch.long)).features(levels)
        single = (self.hits.sum(-1) == 1).nonzero().squeeze(-1)
        forgotten = self.labeled.rows(single).without(self.hits[single].long().argmax(-1))
        missed = ~self.hits[:, : self.k].any(-1)
        return torch.cat([forgotten.features(levels), self.labeled.looked_at.features(levels)[missed]])

    def _set_rate(self, found: Calibration, odds: Tensor) -> None:
        """Fit the prior of the detector, and its slope, to the labeled queries as they came."""
        detector, none = found.detector, torch.tensor([not right for right in self.wanted], dtype=torch.bool)
        if self.unknown_rate is not None:
            detector.rate = self.unknown_rate
        elif bool(none.any()):
            missed = (~self.hits[:, : self.k].any(-1)).double()
            detector.rate = (float(missed.sum()) + 0.5) / (len(missed) + 1)
            before = detector.log_odds(Evidence.of(odds))
            design = torch.stack([before, torch.ones_like(before)], -1)
            start, pull = torch.tensor([1.0, 0.0]), LATER_PULL * torch.eye(2, dtype=torch.float64)
            slope, offset = logistic(design, missed, torch.ones_like(missed), pull, start).tolist()
            prior = detector.log_prior_odds
            detector.offset.copy_(slope * detector.offset + (1 - slope) * prior - offset)
            detector.slopes.mul_(slope)
        elif len(self.logged):
            unknown = to_numpy(found.unknown(self.logged.looked_at.log_odds(found.levels)))
            mixture = Mixture(unknown, detector.rate)
            if mixture.is_told:
                detector.rate = mixture.share(1.0).value

    def _relevance(self, found: Calibration, odds: Tensor) -> Tensor | None:
        """Probability that each answer of a list is right, where queries have several right ones."""
        if not any(len(right) > 1 for right in self.wanted):
            return None
        design = designed(found.posterior(odds), found.unknown(odds)).reshape(-1, 3)
        there = torch.isfinite(odds).reshape(-1).double()
        pull = LATER_PULL * torch.eye(3, dtype=torch.float64)
        return logistic(design, self.hits[:, : self.k].reshape(-1).double(), there, pull, torch.tensor([1.0, 1.0, 0.0]))


def _totals(lists: list[Lists]) -> dict[Label, float]:
    found: defaultdict[Label, float] = defaultdict(float)
    for each in lists:
        share = shares(each.scores.shape[1]).tolist()
        for row in each.ids.tolist():
            for label, worth in zip(row, share, strict=True):
                if label is not None:
                    found[label] += worth
    return dict(found)


def _seen(found: Calibration, bank: Bank) -> Tensor:
    """Summary of lists: their levels in the order of probability, and how sure the first answer is."""
    odds = bank.log_odds(found.levels)
    order = odds.argsort(dim=-1, descending=True, stable=True)
    sure = found.posterior(odds).amax(-1) * (1 - found.unknown(odds))
    return torch.cat([watched(bank.lists.at(order), bank.hubs.gather(1, order)), sure.unsqueeze(-1)], -1)


def _detector(known: Tensor, strange: Tensor) -> UnknownDetector:
    """Both kinds weigh alike, however many there are of each: the rate comes on top."""
    detector = UnknownDetector().double()
    if not len(known) or not len(strange):
        return detector
    features = torch.cat([known, strange])
    detector.center.copy_(features.mean(0))
    detector.scale.copy_(features.std(0, correction=0).clamp_min(1e-9))
    design = torch.cat([(features - detector.center) / detector.scale, torch.ones_like(features[:, :1])], -1)
    is_known = torch.cat([torch.ones(len(known)), torch.zeros(len(strange))]).double()
    trust = torch.cat([torch.ones(len(known)), torch.full((len(strange),), len(known) / len(strange))]).double()
    found = logistic(design, is_known, trust, DETECTOR_PULL * torch.eye(design.shape[1], dtype=torch.float64))
    detector.slopes.copy_(found[:-1])
    detector.offset.copy_(found[-1])
    return detector
