"""Learn from queries that nobody has labeled, and keep a plain metric where nothing was learned."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import torch
from torch import Tensor

from ahop.fitting.choosing.candidate import Candidate
from ahop.fitting.choosing.posterior import behind
from ahop.fitting.corruption.mixture import Form, MixtureFit
from ahop.fitting.corruption.training_set import TrainingSet
from ahop.fitting.settings import Settings
from ahop.fitting.unlabeled.contrast import Halves, contrast, drawn_origins
from ahop.fitting.unlabeled.heard import HEARD, MEMBERS, learn_heard
from ahop.fitting.unlabeled.origins import DISTANCES, Inference, OriginProblem, SoftPairs, infer_origins
from ahop.fitting.unlabeled.silence import silence_tells
from ahop.similarities.base import Similarity
from ahop.variants.base import Pairs

Told: TypeAlias = Callable[[str], None]

# What is tried if nobody says otherwise. One is the plain metric, which must be beaten; where gaps tell, another one.
PLAIN, MIXTURE = "euclidean", "mixture"
TRIED = (PLAIN, "manhattan", "debiased", MIXTURE)
# Queries that are learned from: more would take longer, and teach little more.
MOST_QUERIES_LEARNED = 2048
# Fewer queries are judged in two halves, each by what was learned from the other; of more, one half is enough.
MANY_QUERIES = 256
# How the soft pairs that a similarity is learned from were found: by the mixture, or by a distance.
SOURCES = INFERRED, BY_DISTANCE = "", ", by distance"
# What a distance alone can teach: tables of any form. A mixture does better by itself.
TAUGHT_BY_DISTANCE = ("additive",)


@dataclass(frozen=True)
class Judgment:
    """Split-half information of held-out queries under one similarity.

    Attributes:
        information: the mean, in nats; see `contrast`.
        ahead: of the plain metric, in standard errors.
        behind: the best, in standard errors.
    """

    name: str
    information: float
    ahead: float
    behind: float


@dataclass(frozen=True)
class Unlabeled:
    """Result of learning from queries.

    Attributes:
        name: of the similarity that was chosen.
        calibrating: pairs that probabilities are made of: copies that were simulated, or queries with origins drawn.
        training: the soft pairs.
        judgments: best first.
        unknown: the share of the queries that come from no stored pattern.
        queries: how many were learned from.
        metric: the plain one.
    """

    name: str
    similarity: Similarity
    calibrating: Pairs
    training: TrainingSet
    judgments: tuple[Judgment, ...]
    unknown: float
    queries: int
    metric: str

    @property
    def information(self) -> float:
        """Split-half information of held-out queries under the chosen similarity, in nats."""
        return next(each.information for each in self.judgments if each.name == self.name)

    @property
    def plain(self) -> float | None:
        """Split-half information under the plain metric, if that was measured."""
        return next((each.information for each in self.judgments if each.name == self.metric), None)


@torch.no_grad()
def learn_unlabeled(
    patterns: Tensor,
    queries: Tensor,
    labeled: Pairs | None,
    wanted: Sequence[Candidate],
    seed: int,
    settings: Settings,
    told: Told = lambda text: None,
    may_hear: bool = False,
) -> Unlabeled:
    """The similarity under which halves of held-out queries tell most; the plain one, unless it is clearly beaten.

    Args:
        labeled: pairs whose origins are known, which count fully.
        wanted: what to choose among.
        may_hear: try metrics of strengths too, where gaps tell that nothing was heard.
    """
    if len(queries) > MOST_QUERIES_LEARNED:
        queries = queries[
            torch.arange(MOST_QUERIES_LEARNED, device=queries.device) * len(queries) // MOST_QUERIES_LEARNED
        ]
    is_radio = any(each.is_asked and each.name in MEMBERS for each in wanted)
    hears = is_radio or (may_hear and silence_tells(patterns, queries, settings.unlabeled))
    metric = HEARD if hears else PLAIN
    sources = SOURCES if any(each.name in TAUGHT_BY_DISTANCE for each in wanted) else (INFERRED,)
    judged: dict[str, list[Tensor]] = {}
    for known, asked in halves_of(queries, seed):
        problem = OriginProblem(patterns, known, labeled, settings)
        inference = infer_origins(patterns, known, labeled, told, settings)
        learned = _learned(wanted, {source: _taught(source, problem, inference) for source in sources})
        if hears:
            learned[HEARD] = learn_heard(patterns, known, settings)
        halves = Halves(patterns, asked, known)
        for name, similarity in learned.items():
            told(f"judge {name}")
            judged.setdefault(name, []).append(judge(similarity, halves, patterns, labeled))
    judgments = judgments_of({name: torch.cat(parts) for name, parts in judged.items()}, metric)
    chosen = preferred(judgments, metric, settings.unlabeled.clear_std_errors)
    told("fit to all queries")
    problem = OriginProblem(patterns, queries, labeled, settings)
    inference = problem.settle(inference.mixture, unknown=inference.unknown)
    source = BY_DISTANCE if chosen in DISTANCES or chosen.endswith(BY_DISTANCE) else INFERRED
    training = _taught(source, problem, inference)
    if chosen == HEARD:
        similarity = learn_heard(patterns, queries, settings)
    else:
        similarity = next(each for each in wanted if each.name == chosen.removesuffix(BY_DISTANCE)).learn(training)
    told("probabilities")
    count = settings.unlabeled.simulated_pairs
    calibrating = _calibrating(chosen, similarity, inference, patterns, queries, count, seed)
    return Unlabeled(chosen, similarity, calibrating, training, judgments, inference.unknown, len(queries), metric)


def _calibrating(
    chosen: str,
    similarity: Similarity,
    inference: Inference,
    patterns: Tensor,
    queries: Tensor,
    count: int,
    seed: int,
) -> Pairs:
    """A mixture knows how to make copies; for all else, origins of the queries are drawn."""
    if chosen == MIXTURE or len(queries) < 2 or len(patterns) < 2 or patterns.shape[1] < 2:
        return inference.mixture.variant.sample(patterns, count, seed)
    asked = queries[torch.randint(len(queries), (count,), generator=torch.Generator().manual_seed(seed))]
    posterior = contrast(similarity, patterns, queries).posterior
    return Pairs(drawn_origins(similarity, posterior, patterns, asked, seed), asked)


def halves_of(queries: Tensor, seed: int) -> list[tuple[Tensor, Tensor]]:
    """Queries to learn from, and those that judge."""
    order = torch.randperm(len(queries), generator=torch.Generator().manual_seed(seed))
    if len(queries) < 2:
        return [(queries, queries)]
    first, second = queries[order[::2]], queries[order[1::2]]
    return [(first, second)] if len(queries) >= MANY_QUERIES else [(first, second), (second, first)]


def _taught(source: str, problem: OriginProblem, inference: Inference) -> TrainingSet:
    """Soft pairs: as the mixture infers them, or as the distance does under which halves tell more."""
    if source == INFERRED:
        return _training(problem, inference.pairs, inference.mixture)
    halves = Halves(problem.patterns, problem.queries)
    best = max(DISTANCES.values(), key=lambda base: halves.contrast(base()).worth)
    near = problem.guess(problem.by_distance(best()), 1.0)
    return _training(problem, near, problem.maximize(near, Form()))


def _training(problem: OriginProblem, pairs: SoftPairs, mixture: MixtureFit) -> TrainingSet:
    copies, weights = problem.copies[pairs.queries], pairs.weights.to(problem.patterns)
    return TrainingSet(
        problem.patterns, pairs.origins, copies, weights, is_trusted=True, fitted=mixture, settings=problem.settings
    )


def _learned(wanted: Sequence[Candidate], taught: dict[str, TrainingSet]) -> dict[str, Similarity]:
    return {
        f"{candidate.name}{source}": candidate.learn(training)
        for candidate in wanted
        for source, training in taught.items()
        if source == INFERRED or candidate.name in TAUGHT_BY_DISTANCE
    }


def judge(similarity: Similarity, halves: Halves, patterns: Tensor, labeled: Pairs | None) -> Tensor:
    """Information of each query's halves, (b,); for those with a label, whether it is found."""
    found = halves.contrast(similarity).information
    if labeled is None:
        return found
    hits = similarity(patterns, labeled.queries).argmax(-1) == labeled.origins
    return torch.cat([found, hits.double()])


def judgments_of(judged: dict[str, Tensor], metric: str) -> tuple[Judgment, ...]:
    """All similarities that were judged, best first, beside the plain metric."""
    plain, best = judged.get(metric), max(judged.values(), key=lambda values: float(values.mean()))
    found = [
        Judgment(name, float(values.mean()), errors_ahead(values, plain), errors_ahead(best, values))
        for name, values in judged.items()
    ]
    return tuple(sorted(found, key=lambda each: -each.information))


def errors_ahead(values: Tensor, others: Tensor | None) -> float:
    """By how many standard errors the mean of values is larger than that of others; none, if there are none."""
    if others is None:
        return 0.0
    mean, error = behind(values, others, torch.ones_like(values))
    return mean / error if error > 0 else 0.0


def preferred(judgments: Sequence[Judgment], metric: str, std_errors: float) -> str:
    """The best that clearly beats the plain metric; a mixture, which knows most, unless it is clearly worse."""
    if all(each.name != metric for each in judgments):
        return judgments[0].name
    clear = [each.name for each in judgments if each.ahead > std_errors]
    within_chance = [each.name for each in judgments if each.behind <= std_errors]
    if MIXTURE in clear and MIXTURE in within_chance:
        return MIXTURE
    return clear[0] if clear else metric
