"""Learn from queries of categories, and of numbers beside these, that nobody has labeled."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from ahop.errors import InvalidValueError
from ahop.fitting.choosing.candidate import Candidate
from ahop.fitting.choosing.tables import AGREEMENT, GOWER, learn_agreement
from ahop.fitting.corruption.agreement import draw_copies
from ahop.fitting.corruption.categories import Categories
from ahop.fitting.corruption.mixture import MixtureFit, fit_mixture
from ahop.fitting.corruption.training_set import TrainingSet
from ahop.fitting.settings import Settings
from ahop.fitting.unlabeled.contrast import Halves
from ahop.fitting.unlabeled.learn import (
    MOST_QUERIES_LEARNED,
    Told,
    Unlabeled,
    halves_of,
    judge,
    judgments_of,
    preferred,
)
from ahop.fitting.unlabeled.origins import (
    MORE_STEPS,
    ORIGIN_TOLERANCE,
    ROUNDS_ANEW,
    OriginProblem,
    SoftPairs,
    infer_origins,
)
from ahop.similarities.base import Similarity
from ahop.variants.base import Pairs

# Rounds at most.
ROUNDS = 20
# Queries with numbers in them that are enough for each half of them to have some.
LEAST_WITH_NUMBERS = 8


@dataclass(frozen=True)
class _Learned:
    """Similarity that a candidate has learned from soft pairs, and the share of queries of no stored pattern."""

    similarity: Similarity
    training: TrainingSet
    unknown: float


@torch.no_grad()
def learn_categories(
    patterns: Tensor,
    queries: Tensor,
    labeled: Pairs | None,
    categories: Categories,
    wanted: Sequence[Candidate],
    seed: int,
    settings: Settings,
    told: Told,
) -> Unlabeled:
    """Tables of categories, and what numbers say beside them, if halves of held-out queries tell more by both.

    Else Gower's similarity is kept.

    Args:
        labeled: pairs whose origins are known, which count fully.
        wanted: what to choose among: the first that learns, and agreement of the numbers.
    """
    if len(queries) > MOST_QUERIES_LEARNED:
        queries = queries[torch.arange(MOST_QUERIES_LEARNED) * len(queries) // MOST_QUERIES_LEARNED]
    with_numbers = int((~queries[:, categories.numeric].isnan()).any(-1).sum())
    if categories.numeric and with_numbers < LEAST_WITH_NUMBERS:
        raise InvalidValueError(
            f"{with_numbers} of the `queries` hold numbers: too few to learn from. Pass more of them, or leave the "
            "columns of numbers out of the patterns."
        )
    learning = _learning(wanted, categories)
    problem = OriginProblem(patterns, queries, labeled, settings)
    plain = GOWER.learn(_training(problem, _none(problem), None, categories))
    judged: dict[str, list[Tensor]] = {}
    for known, asked in halves_of(queries, seed):
        halves = Halves(patterns, asked, known)
        part = OriginProblem(patterns, known, labeled, settings)
        learned = {GOWER.name: plain}
        learned |= {name: _settled(part, each, categories, told).similarity for name, each in learning.items()}
        for name, similarity in learned.items():
            told(f"judge {name}")
            judged.setdefault(name, []).append(judge(similarity, halves, patterns, labeled))
    judgments = judgments_of({name: torch.cat(parts) for name, parts in judged.items()}, GOWER.name)
    chosen = preferred(judgments, GOWER.name, settings.unlabeled.clear_std_errors)
    told("fit to all queries")
    if chosen == GOWER.name:
        seen = _training(problem, _none(problem), _mixture_of_numbers(problem, categories), categories)
        found = _Learned(plain, seen, problem.asked.unknown_share)
    else:
        found = _settled(problem, learning[chosen], categories, told)
    told("probabilities")
    calibrating = _copies(chosen, found.training, queries, settings.unlabeled.simulated_pairs, seed)
    return Unlabeled(
        chosen,
        found.similarity,
        calibrating,
        found.training,
        judgments,
        found.unknown,
        len(queries),
        GOWER.name,
    )


def _learning(wanted: Sequence[Candidate], categories: Categories) -> dict[str, Candidate]:
    """Learn by the first that does, and by agreement of numbers beside it if that is wanted."""
    learning = {each.name: each for each in wanted if each.name != GOWER.name}
    kept = [name for name in learning if name != AGREEMENT.name][:1]
    kept += [AGREEMENT.name] if AGREEMENT.name in learning and categories.numeric else []
    return {name: learning[name] for name in kept}


def _settled(problem: OriginProblem, candidate: Candidate, categories: Categories, told: Told) -> _Learned:
    """Rounds: how likely is each stored pattern the origin, and which tables do these make most likely?"""
    mixture = None if candidate.name == AGREEMENT.name else _mixture_of_numbers(problem, categories, told)
    training = _training(problem, _none(problem), mixture, categories)
    unknown, before = problem.asked.unknown_share, -torch.inf
    for number in range(ROUNDS):
        told(f"{candidate.name}, round {number + 1}")
        listed = problem.listed(candidate.learn(training))
        odds = problem.log_odds(listed)
        pairs = problem.expect(listed, unknown)
        if mixture is not None:
            places = categories.numeric
            rows = problem.patterns[pairs.origins][:, places], problem.copies[pairs.queries][:, places], pairs.weights
            start = None if number < ROUNDS_ANEW else mixture  # another form may do better beside categories
            mixture = fit_mixture(
                *rows, None, start, is_trusted=True, steps=MORE_STEPS, settings=problem.settings.mixture
            )
        training = _training(problem, pairs, mixture, categories)
        unknown, mean = problem.unknown_share(odds, unknown), float(odds.mean())
        if number > ROUNDS_ANEW and mean - before < ORIGIN_TOLERANCE:
            break
        before = mean
    return _Learned(candidate.learn(training), training, unknown)


def _mixture_of_numbers(
    problem: OriginProblem, categories: Categories, told: Told = lambda text: None
) -> MixtureFit | None:
    """Corruption of numbers, as the columns of numbers tell alone."""
    places, labeled = categories.numeric, problem.labeled
    if not places:
        return None
    known = None if labeled is None else Pairs(labeled.origins, labeled.queries[:, places])
    queries = problem.queries[:, places]
    queries = queries[~queries.isnan().all(-1)]  # no distance tells where these are from
    return infer_origins(problem.patterns[:, places], queries, known, told, problem.settings).mixture


def _training(
    problem: OriginProblem, pairs: SoftPairs, mixture: MixtureFit | None, categories: Categories
) -> TrainingSet:
    copies, weights = problem.copies[pairs.queries], pairs.weights.to(problem.patterns)
    return TrainingSet(
        problem.patterns,
        pairs.origins,
        copies,
        weights,
        is_trusted=True,
        fitted=mixture,
        settings=problem.settings,
        categories=categories,
    )


def _none(problem: OriginProblem) -> SoftPairs:
    """No origin is known yet but those of the labels."""
    empty = torch.zeros(0, dtype=torch.long)
    return problem.with_labels(SoftPairs(empty, empty, torch.zeros(0, dtype=torch.float64)))


def _copies(chosen: str, training: TrainingSet, queries: Tensor, count: int, seed: int) -> Pairs:
    """Copies that are made as was learned, with the gaps of queries where these are not learned."""
    generator, categories = Generator().manual_seed(seed), training.categories
    assert categories is not None
    patterns, numeric, places = training.patterns, categories.numeric, list(categories.places)
    copies = patterns.new_full((count, patterns.shape[1]), torch.nan)
    gaps = queries[torch.randint(len(queries), (count,), generator=generator)].isnan()
    if numeric and chosen != AGREEMENT.name:
        pairs = training.mixture.variant.sample(patterns[:, numeric], count, seed)
        origins, copies[:, numeric] = pairs.origins, pairs.queries
    else:
        origins = torch.randint(len(patterns), (count,), generator=generator)
        if numeric:
            drawn = draw_copies(learn_agreement(training.numbers), patterns[origins][:, numeric], generator)
            copies[:, numeric] = drawn.masked_fill(gaps[:, numeric], torch.nan)
    drawn = training.tables.drawn(patterns[origins][:, places], generator)
    copies[:, places] = drawn.masked_fill(gaps[:, places], torch.nan)
    return Pairs(origins, copies)
