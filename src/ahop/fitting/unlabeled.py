"""Learn from queries that nobody has labeled, and keep a plain metric where nothing was learned."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import log, pi
from typing import TypeAlias

import torch
from torch import Tensor

from ahop.fitting.agreement import agreement
from ahop.fitting.candidates import Candidate
from ahop.fitting.mixture import Form, MixtureFit
from ahop.fitting.origins import DISTANCES, Inference, OriginProblem, SoftPairs, infer_origins
from ahop.fitting.posterior import behind
from ahop.fitting.training_set import TrainingSet
from ahop.model import Model
from ahop.scoring import rank
from ahop.similarities.base import Similarity
from ahop.similarities.euclidean import EuclideanSimilarity
from ahop.variants.base import Pairs
from ahop.variants.mixture import MixtureVariant

Told: TypeAlias = Callable[[str], None]

# What is tried if nobody says otherwise; the first of these is the plain metric, which must be beaten.
PLAIN = "euclidean"
TRIED = (PLAIN, "manhattan", "debiased", "mixture")
# Fewer queries are judged in two halves, each by what was learned from the other; of more, one half is enough.
MANY_QUERIES = 256
# Standard errors that are more than chance, and those that are not.
CLEARLY, NO_LESS = 2.0, 1.0
# How the soft pairs that a similarity is learned from were found: by the mixture, or by a distance.
INFERRED, BY_DISTANCE = "", ", by distance"
# What a distance alone can teach: tables of any form. A mixture does better by itself.
TAUGHT_BY_DISTANCE = ("additive",)


@dataclass(frozen=True)
class Judgment:
    """How far halves of held-out queries agree under one similarity.

    Attributes:
        agreement: the mean, see `agreement`.
        ahead: of the plain metric, in standard errors.
        behind: the best, in standard errors.
    """

    name: str
    agreement: float
    ahead: float
    behind: float


@dataclass(frozen=True)
class Unlabeled:
    """What queries have taught.

    Attributes:
        name: of the similarity that was chosen.
        corruption: what copies are simulated by.
        training: the soft pairs.
        judgments: best first.
        unknown: the share of the queries that come from no stored pattern.
    """

    name: str
    similarity: Similarity
    corruption: MixtureVariant
    training: TrainingSet
    judgments: tuple[Judgment, ...]
    unknown: float

    @property
    def agreement(self) -> float:
        return next(each.agreement for each in self.judgments if each.name == self.name)

    @property
    def plain(self) -> float | None:
        """The same under the plain metric, if that was asked for."""
        return next((each.agreement for each in self.judgments if each.name == PLAIN), None)


@torch.no_grad()
def learn_unlabeled(
    patterns: Tensor,
    queries: Tensor,
    labeled: Pairs | None,
    wanted: Sequence[Candidate],
    seed: int,
    told: Told = lambda text: None,
) -> Unlabeled:
    """The similarity under which halves of held-out queries agree most; the plain one, unless it is clearly beaten.

    Args:
        labeled: pairs whose origins are known, which count fully.
        wanted: what to choose among.
    """
    judged: dict[str, list[Tensor]] = {}
    rises = []
    for known, asked in _halves(queries, seed):
        problem = OriginProblem(patterns, known, labeled)
        inference = infer_origins(patterns, known, labeled, told)
        rises.append(_rise(OriginProblem(patterns, asked), inference.mixture))
        for name, similarity in _learned(wanted, _taught(problem, inference)).items():
            told(f"judge {name}")
            judged.setdefault(name, []).append(_judge(similarity, patterns, asked, labeled))
    judgments = _judgments({name: torch.cat(parts) for name, parts in judged.items()})
    chosen = _preferred(judgments, wanted, _ahead(torch.cat(rises), None))
    told("fit to all queries")
    problem = OriginProblem(patterns, queries, labeled)
    inference = problem.settle(inference.mixture, unknown=inference.unknown)
    taught = _taught(problem, inference)
    similarity = _learned([each for each in wanted if each.name == chosen.removesuffix(BY_DISTANCE)], taught)[chosen]
    training = taught[BY_DISTANCE if chosen in DISTANCES or chosen.endswith(BY_DISTANCE) else INFERRED]
    return Unlabeled(chosen, similarity, training.mixture.variant, training, judgments, inference.unknown)


def _halves(queries: Tensor, seed: int) -> list[tuple[Tensor, Tensor]]:
    """Queries to learn from, and those that judge."""
    order = torch.randperm(len(queries), generator=torch.Generator().manual_seed(seed))
    if len(queries) < 2:
        return [(queries, queries)]
    first, second = queries[order[::2]], queries[order[1::2]]
    return [(first, second)] if len(queries) >= MANY_QUERIES else [(first, second), (second, first)]


def _taught(problem: OriginProblem, inference: Inference) -> dict[str, TrainingSet]:
    """Soft pairs: as the mixture infers them, and as the distance does under which halves agree more."""
    worth = {
        name: float(agreement(base(), problem.patterns, problem.queries).mean()) for name, base in DISTANCES.items()
    }
    near = problem.expect(problem.by_distance(DISTANCES[max(worth, key=worth.__getitem__)]()), 1.0)
    return {
        INFERRED: _training(problem, inference.pairs, inference.mixture),
        BY_DISTANCE: _training(problem, near, problem.maximize(near, Form())),
    }


def _training(problem: OriginProblem, pairs: SoftPairs, mixture: MixtureFit) -> TrainingSet:
    copies, weights = problem.copies[pairs.queries], pairs.weights.to(problem.patterns)
    return TrainingSet(problem.patterns, pairs.origins, copies, weights, is_trusted=True, fitted=mixture)


def _learned(wanted: Sequence[Candidate], taught: dict[str, TrainingSet]) -> dict[str, Similarity]:
    return {
        f"{candidate.name}{source}": candidate.learn(training)
        for candidate in wanted
        for source, training in taught.items()
        if source == INFERRED or candidate.name in TAUGHT_BY_DISTANCE
    }


def _judge(similarity: Similarity, patterns: Tensor, queries: Tensor, labeled: Pairs | None) -> Tensor:
    """How far halves of each query agree, (b,); of those with a label, whether it is found."""
    found = agreement(similarity, patterns, queries)
    if labeled is None:
        return found
    hits = similarity(patterns, labeled.queries).argmax(-1) == labeled.origins
    return torch.cat([found, hits.double()])


def _judgments(judged: dict[str, Tensor]) -> tuple[Judgment, ...]:
    """All similarities that were judged, best first."""
    plain, best = judged.get(PLAIN), max(judged.values(), key=lambda values: float(values.mean()))
    found = [
        Judgment(name, float(values.mean()), _ahead(values, plain), _ahead(best, values))
        for name, values in judged.items()
    ]
    return tuple(sorted(found, key=lambda each: -each.agreement))


def _ahead(values: Tensor, others: Tensor | None) -> float:
    """By how many standard errors the mean of values is larger than that of others; than zero, if there are none."""
    mean, error = behind(values, torch.zeros_like(values) if others is None else others, torch.ones_like(values))
    return mean / error if error > 0 else 0.0


def _rise(problem: OriginProblem, mixture: MixtureFit) -> Tensor:
    """By how much the log-evidence of each query rises from noise alone, as wide as a distance finds it, (b,)."""
    observed = (~problem.queries.isnan()).sum(-1).clamp_min(1).double()
    share = observed / problem.queries.shape[1]
    ranked = rank(Model(EuclideanSimilarity()), problem.patterns, problem.queries, 1)
    nearest = -ranked.scores[:, 0].double() * share  # of what was observed alone
    variance = float((nearest / observed).median().clamp_min(1e-30))
    noise = -0.5 * nearest / variance - 0.5 * observed * log(2 * pi * variance) - log(len(problem.patterns))
    learned = problem.log_odds(problem.ranked(mixture)) + mixture.variant.log_background(problem.queries).double()
    return learned - noise


def _preferred(judgments: Sequence[Judgment], wanted: Sequence[Candidate], rise: float) -> str:
    """Of those under which halves agree as much as under the best, within chance, the first that clearly beats plain.

    The mixture does so too where the evidence clearly rises, by so many standard errors, and halves agree no less.
    """
    if all(each.name != PLAIN for each in judgments):
        return judgments[0].name
    order = [candidate.name for candidate in wanted]
    good = sorted(judgments, key=lambda each: order.index(each.name.removesuffix(BY_DISTANCE)))
    for each in good:
        explains = each.name == "mixture" and rise > CLEARLY and each.ahead > -NO_LESS
        if each.behind <= CLEARLY and (each.ahead > CLEARLY or explains):
            return each.name
    return PLAIN
