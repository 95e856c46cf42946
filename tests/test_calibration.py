"""Probabilities that mean what they say: of the origins, and of none being stored."""

from collections.abc import Callable
from math import isfinite, log

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.testing import assert_close

import ahop
from ahop._core.tensors import lowest
from ahop.fitting.choosing.negatives import hard_negatives
from ahop.fitting.choosing.pool import fit_pool
from ahop.fitting.choosing.posterior import (
    CLOSEST_RIVALS,
    DRAWN_RIVALS_OF_PAIR,
    Posterior,
    Rivals,
    calibrated,
    closest_rivals,
    fit_posterior,
)
from ahop.fitting.choosing.unknown import fit_detector
from ahop.memory.unknown import Evidence, UnknownDetector
from tests.catalogue import moved_detector
from tests.strategies import score_rows, seeds

EVEN = torch.ones(2000)


def drawn(beta: float, count: int = 2000, patterns: int = 30, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Scores, and origins that are drawn from their softmax at that sharpness."""
    generator = torch.Generator().manual_seed(seed)
    scores = 2 * torch.randn(count, patterns, generator=generator, dtype=torch.float64) / beta
    origins = torch.multinomial(torch.softmax(beta * scores, -1), 1, generator=generator).squeeze(-1)
    return scores, origins


def separable(count: int, patterns: int = 10) -> tuple[Tensor, Tensor]:
    origins = torch.arange(count) % patterns
    return torch.randn(count, patterns).scatter_add(1, origins[:, None], torch.full((count, 1), 50.0)), origins


def posterior_fit(
    scores: Tensor, origins: Tensor, weights: Tensor, log_counts: Tensor | None = None
) -> tuple[float, Posterior]:
    """Sharpness and floor of all scores; with counts, those of the origins stand in the first column."""
    if log_counts is None:
        return calibrated(closest_rivals([scores], origins), weights)
    below = scores.double() - scores.double().amax(-1, keepdim=True)
    count = round(float(log_counts.exp().sum(-1).mean()))
    return calibrated(Rivals(below.unsqueeze(0), log_counts, count), weights)


def best_sharpness(scores: Tensor, origins: Tensor, weights: Tensor, log_counts: Tensor | None = None) -> float:
    return posterior_fit(scores, origins, weights, log_counts)[0]


def log_loss(scores: Tensor, origins: Tensor, beta: float, floor: float = 0.0) -> Tensor:
    """The slow, readable truth."""
    posterior = (1 - floor) * torch.softmax(beta * scores.double(), -1) + floor / scores.shape[-1]
    return -posterior.gather(-1, origins.unsqueeze(-1)).squeeze(-1).log()


# The sharpness of a posterior, and its floor.


@pytest.mark.parametrize("beta", [1e-6, 0.05, 0.7, 5.0, 1e6])
def test_the_sharpness_is_that_which_the_origins_were_drawn_with(beta: float) -> None:
    assert best_sharpness(*drawn(beta), EVEN) == pytest.approx(beta, rel=0.15)


@given(seed=seeds)
def test_a_sharpness_knows_no_units_and_no_offsets(seed: int) -> None:
    scores, origins = drawn(1.0, count=50, patterns=6, seed=seed)
    weights, offsets = torch.ones(50), torch.randn(50, 1, dtype=torch.float64)
    plain = best_sharpness(scores, origins, weights)
    assert best_sharpness(1e5 * scores, origins, weights) * 1e5 == pytest.approx(plain)
    assert best_sharpness(scores + offsets, origins, weights) == pytest.approx(plain)


@pytest.mark.parametrize("beta", [0.1, 0.7, 3.0])
def test_no_other_sharpness_has_a_lower_loss(beta: float) -> None:
    scores, origins = drawn(beta, count=300)
    found = best_sharpness(scores, origins, torch.ones(300))
    loss = float(log_loss(scores, origins, found).mean())
    for factor in (0.5, 0.8, 1.25, 2.0):
        assert loss < float(log_loss(scores, origins, factor * found).mean())


@pytest.mark.parametrize("count", [1, 10, 1000])
def test_origins_that_are_always_right_do_not_make_anything_certain(count: int) -> None:
    scores, origins = separable(count)
    beta = best_sharpness(scores, origins, torch.ones(count))
    assert isfinite(beta)
    assert beta > 0
    posterior = torch.softmax(beta * scores.double(), -1)
    assert float(posterior.max()) < 1 - 1e-6


def test_more_pairs_that_are_right_make_it_surer() -> None:
    losses = []
    for count in (4, 40, 400):
        scores, origins = separable(count)
        losses.append(float(log_loss(scores, origins, best_sharpness(scores, origins, torch.ones(count))).mean()))
    assert losses == sorted(losses, reverse=True)


def test_a_pair_without_weight_is_not_asked() -> None:
    scores, origins = drawn(0.7, count=400)
    weights = torch.ones(400).index_fill(0, torch.arange(0, 400, 2), 0)
    wrong = torch.where(weights > 0, origins, (origins + 1) % 30)
    assert best_sharpness(scores, wrong, weights) == best_sharpness(scores, origins, weights)


@pytest.mark.parametrize(
    "scores",
    [
        torch.zeros(5, 4),
        torch.full((5, 4), lowest(torch.float32)),
        torch.full((5, 4), torch.finfo(torch.float32).max),
        torch.randn(5, 1),
        torch.randn(1, 4),
        1e30 * torch.randn(5, 4),
        1e-30 * torch.randn(5, 4),
    ],
)
@pytest.mark.parametrize("weight", [0.0, 1.0])
def test_a_sharpness_is_a_positive_number_whatever_the_scores(scores: Tensor, weight: float) -> None:
    beta = best_sharpness(scores, torch.zeros(len(scores)).long(), torch.full((len(scores),), weight))
    assert isfinite(beta)
    assert beta > 0


def test_a_pattern_that_nothing_is_known_about_does_not_blunt_the_others() -> None:
    scores, origins = drawn(0.7)
    unknown = torch.full((len(scores), 1), lowest(torch.float32), dtype=torch.float64)
    with_it = best_sharpness(torch.cat([scores, unknown], dim=-1), origins, EVEN)
    assert with_it == pytest.approx(best_sharpness(scores, origins, EVEN), rel=0.05)


@pytest.mark.parametrize("patterns", [5, 1 + CLOSEST_RIVALS + DRAWN_RIVALS_OF_PAIR, 1000])
def test_the_losses_are_those_of_the_posterior_that_is_answered(patterns: int) -> None:
    scores, origins = drawn(0.7, count=300, patterns=patterns)
    beta, fitted = posterior_fit(scores, origins, torch.ones(300))
    expected = log_loss(scores, origins, beta, fitted.floor)
    assert_close(fitted.losses, expected, rtol=0, atol=1e-9 if patterns < 1000 else 0.5)
    assert_close(fitted.losses.mean(), expected.mean(), rtol=0, atol=0.02)


@pytest.mark.parametrize("share", [0.0, 0.1, 0.3])
def test_the_floor_is_the_share_of_pairs_that_the_scores_say_nothing_about(share: float) -> None:
    generator = torch.Generator().manual_seed(0)
    scores, origins = drawn(3.0)
    missed = torch.rand(len(scores), generator=generator) < share
    origins = torch.where(missed, torch.randint(30, origins.shape, generator=generator), origins)
    beta, fitted = posterior_fit(scores, origins, EVEN)
    assert fitted.floor == pytest.approx(share, abs=0.03)
    assert beta == pytest.approx(3.0, rel=0.2)


def test_one_bad_pair_costs_no_more_than_the_floor_allows() -> None:
    scores, origins = separable(50, patterns=20)
    scores[0, origins[0]] -= 1000
    beta, fitted = posterior_fit(scores, origins, torch.ones(50))
    assert float(fitted.losses.max()) <= -log(fitted.floor / 20) + 1e-9
    assert float(fitted.losses[1:].mean()) < 0.2
    assert beta > 0


def test_a_pair_more_makes_the_floor_of_few_pairs_no_lie() -> None:
    floors = [posterior_fit(*separable(count), torch.ones(count))[1].floor for count in (4, 40, 400)]
    assert floors == sorted(floors, reverse=True)
    assert floors[0] > 0.05


# Pools.


def two_views(count: int = 300, patterns: int = 40, seed: int = 0) -> tuple[list[Tensor], Tensor]:
    """Two independent views of one origin, and one that shows nothing."""
    generator = torch.Generator().manual_seed(seed)
    origins = torch.randint(patterns, (count,), generator=generator)
    signal = torch.zeros(count, patterns).scatter(1, origins[:, None], 2.0)
    views = [2 * (signal + torch.randn(count, patterns, generator=generator)) for _ in range(2)]
    return [*views, torch.randn(count, patterns, generator=generator)], origins


def mean_losses(scores: list[Tensor], origins: Tensor) -> list[float]:
    trust = torch.ones(len(origins))
    return [float(posterior_fit(each, origins, trust)[1].losses.mean()) for each in scores]


def calibrated_rivals(scores: list[Tensor], origins: Tensor) -> Rivals:
    betas = [best_sharpness(each, origins, torch.ones(len(origins))) for each in scores]
    return closest_rivals(scores, origins).scaled(torch.tensor(betas, dtype=torch.float64))


def test_a_pool_takes_who_knows_more_and_leaves_who_knows_nothing() -> None:
    scores, origins = two_views()
    trust = torch.ones(len(origins))
    pool = fit_pool(calibrated_rivals(scores, origins), trust, 0, mean_losses(scores, origins))
    assert sorted(pool.members) == [0, 1]
    assert_close(pool.posterior.weights, torch.ones(2, dtype=torch.float64), rtol=0, atol=0.25)
    assert min(pool.worth) > 0.3


def test_a_member_that_says_the_same_again_is_not_taken() -> None:
    scores, origins = two_views()
    twice = [scores[0], 3 * scores[0] + 1]
    pool = fit_pool(calibrated_rivals(twice, origins), torch.ones(len(origins)), 0, mean_losses(twice, origins))
    assert pool.members == [0]


@given(seed=seeds)
def test_a_pool_is_never_worse_than_its_best_member_beyond_chance(seed: int) -> None:
    """Weights are found on some pairs, and judged on others."""
    scores, origins = two_views(count=120, seed=seed)
    seen, unseen = slice(0, 40), slice(40, None)
    trust = torch.ones(40)
    fits = [posterior_fit(each[seen], origins[seen], trust) for each in scores]
    best = min(range(3), key=lambda place: float(fits[place][1].losses.sum()))
    shown = [each[seen] for each in scores]
    losses = [float(fit.losses.mean()) for _, fit in fits]
    pool = fit_pool(calibrated_rivals(shown, origins[seen]), trust, best, losses)
    weights = zip(pool.posterior.weights.tolist(), pool.members, strict=True)
    pooled = torch.stack([weight * fits[place][0] * scores[place][unseen] for weight, place in weights]).sum(0)
    beta, alone = fits[best]
    difference = log_loss(pooled, origins[unseen], 1.0, pool.posterior.floor) - log_loss(
        scores[best][unseen], origins[unseen], beta, alone.floor
    )
    assert float(difference.mean()) <= 3 * float(difference.std()) / len(difference) ** 0.5


@given(seed=seeds, members=st.integers(1, 3))
def test_no_weights_nearby_make_the_objective_fall(seed: int, members: int) -> None:
    scores, origins = two_views(count=60, patterns=10, seed=seed)
    rivals, trust = calibrated_rivals(scores[:members], origins), torch.ones(60)
    found = fit_posterior(rivals, trust, 1.0)
    assert bool((found.weights >= 0).all())
    for direction in torch.randn(8, members, dtype=torch.float64):
        moved = (found.weights + 0.05 * direction).clamp_min(0)
        shares = torch.softmax(torch.einsum("kmt,k->mt", rivals.scores, moved) + rivals.log_counts, -1)[:, 0]
        losses = -((1 - found.floor) * shares + found.floor / rivals.count).log()
        now = float(found.losses.sum() + found.weights.sum())
        assert float(losses.sum() + moved.sum()) >= now - 1e-3


@pytest.mark.parametrize("times", [1, 20])
def test_a_rival_may_stand_for_several(times: int) -> None:
    scores, origins = drawn(0.7)
    own = scores.gather(-1, origins.unsqueeze(-1))
    repeated, first = torch.cat([own, scores.repeat(1, times)], dim=-1), torch.zeros_like(origins)
    once = torch.cat([own, scores], dim=-1)
    counts = torch.full_like(once, log(times)).index_fill(1, torch.tensor([0]), 0.0)
    assert best_sharpness(once, first, EVEN, counts) == pytest.approx(best_sharpness(repeated, first, EVEN), rel=0.06)


def clustered(count: int) -> Tensor:
    """Few rivals are close, and hardly any of these is drawn."""
    centers = torch.randn(count // 200, 16)
    places = centers[torch.randint(len(centers), (count,))] + 0.5 * torch.randn(count, 16)
    return torch.tanh(1.5 * places @ torch.randn(16, 64) / 4 + 0.3 * torch.randn(count, 64))


def crowded(count: int) -> Tensor:
    """Many rivals are close."""
    return torch.tanh(torch.randn(count, 8) @ torch.randn(8, 32))


@pytest.mark.parametrize("make", [clustered, crowded])
@pytest.mark.parametrize("beta", [0.5, 1.0])
def test_the_closest_and_some_others_weigh_what_all_weigh(make: Callable[[int], Tensor], beta: float) -> None:
    patterns, variant = make(20_000), ahop.MixedVariant(0.3, 0.3, 0.3)
    pairs = variant.sample(patterns, 64, seed=1)
    judge = ahop.likelihood.LikelihoodSimilarity(variant)
    near = ahop.EuclideanSimilarity()
    negatives = hard_negatives(patterns, pairs.origins, pairs.queries, near, [judge] * 64, seed=0)
    scores = judge(patterns, pairs.queries).double()
    assert_close(negatives.own.squeeze(-1).double(), scores.gather(-1, pairs.origins.unsqueeze(-1)).squeeze(-1))
    weighed = torch.logsumexp(beta * negatives.scores.double() + negatives.log_counts, -1)
    missed = (weighed - torch.logsumexp(beta * scores, -1)).abs()
    assert float(missed.median()) < 0.1
    assert float(missed.mean()) < 0.3
    assert float(
        negatives.log_counts.exp().masked_fill(torch.isneginf(negatives.scores), 0).sum(-1).mean()
    ) == pytest.approx(len(patterns))


def test_probabilities_among_very_many_mean_what_they_say() -> None:
    patterns, variant = clustered(40_000), ahop.MixedVariant(0.3, 0.3, 0.3)
    pairs, test = variant.sample(patterns, 400, seed=1), variant.sample(patterns, 400, seed=2)
    memory = ahop.fit(patterns, pairs=pairs, similarity="mixture", progress=False)
    found = memory.recall(test.queries)
    right = float((found.indices[:, 0] == test.origins).double().mean())
    assert float(found.posterior[:, 0].mean()) == pytest.approx(right, abs=0.03)


def test_strangers_among_very_many_are_told() -> None:
    everyone = torch.tanh(torch.randn(20_400, 16) @ torch.randn(16, 48))
    patterns, strangers = everyone[:20_000], everyone[20_000:]
    variant = ahop.MixedVariant(0.2, 0.2, 0.2)
    memory = ahop.fit(patterns, pairs=variant.sample(patterns, 400, seed=1), similarity="mixture", progress=False)
    known = memory.recall(variant.sample(patterns, 400, seed=2).queries).unknown
    unknown = memory.recall(variant.sample(strangers, 400, seed=3).queries).unknown
    assert known is not None
    assert unknown is not None
    for said, share in ((known, 0.0), (unknown, 1.0)):
        assert float(said.mean()) == pytest.approx(share, abs=0.15)


# The detector of queries that come from nowhere.


def auroc(known: Tensor, unknown: Tensor) -> float:
    """How often an unknown query looks more unknown than a known one."""
    above, tied = unknown[:, None] > known, unknown[:, None] == known
    return float((above.double() + 0.5 * tied.double()).mean())


class World:
    """Patterns with noise on their copies, and others of the same kind that are not stored."""

    def __init__(self, count: int = 150, dimensions: int = 10) -> None:
        generator = torch.Generator().manual_seed(0)
        self.patterns = torch.randn(count, dimensions, generator=generator)
        self.strangers = torch.randn(count, dimensions, generator=generator)
        self.variant = ahop.NoisyVariant(0.15)

    def scores(self, pairs: ahop.Pairs) -> Tensor:
        return ahop.EuclideanSimilarity()(self.patterns, pairs.queries) / 0.3

    def learned(self, pairs: int = 300) -> UnknownDetector:
        train = self.variant.sample(self.patterns, pairs)
        return fit_detector(self.scores(train), train.origins, torch.ones(pairs))

    def tested(self, detector: UnknownDetector) -> tuple[Tensor, Tensor]:
        known = self.variant.sample(self.patterns, 1000, seed=1)
        unknown = self.variant.sample(self.strangers, 1000, seed=2)
        return detector(self.scores(known)), detector(self.scores(unknown))


@pytest.mark.parametrize("pairs", [30, 300])
def test_a_detector_tells_strangers_from_stored_patterns(pairs: int) -> None:
    world = World()
    assert auroc(*world.tested(world.learned(pairs))) > 0.9


def test_a_detector_says_what_it_knows_and_no_more() -> None:
    """Where it says 80 %, four of five queries are strangers, give or take."""
    world = World()
    known, unknown = world.tested(world.learned())
    said = torch.cat([known, unknown])
    true = torch.cat([torch.zeros_like(known), torch.ones_like(unknown)])
    for low in (0.0, 0.2, 0.4, 0.6, 0.8):
        here = (said >= low) & (said < low + 0.2)
        if int(here.sum()) >= 50:
            assert float(said[here].mean()) == pytest.approx(float(true[here].mean()), abs=0.15)
    assert float(known.mean()) < 0.3
    assert float(unknown.mean()) > 0.7


@pytest.mark.parametrize("count", [200, 400])
def test_a_detector_holds_among_more_rows(count: int) -> None:
    detector = World(100).learned()
    known, unknown = World(count).tested(detector)
    assert auroc(known, unknown) > 0.85
    assert float(known.mean()) < 0.25
    assert float(unknown.mean()) > 0.55


def test_a_rate_moves_the_odds_by_its_own() -> None:
    scores = torch.randn(20, 6, dtype=torch.float64)
    detector = moved_detector()
    detector.rate = 0.5
    before = torch.logit(detector(scores))
    for rate in (0.01, 0.2, 0.9):
        detector.rate = rate
        assert_close(torch.logit(detector(scores)) - before, torch.full_like(before, log(rate / (1 - rate))))


@pytest.mark.parametrize("rate", [0.0, 1.0])
def test_a_rate_may_be_certain(rate: float) -> None:
    detector = moved_detector()
    detector.rate = rate
    assert_close(detector(torch.zeros(3, 4)), torch.full((3,), rate))


@pytest.mark.parametrize("rate", [-0.1, 1.1, float("nan")])
def test_a_rate_is_a_share(rate: float) -> None:
    with pytest.raises(ahop.errors.InvalidValueError, match=r"`rate`.*\[0, 1\]"):
        UnknownDetector(rate)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_few_patterns_give_a_detector_too(count: int) -> None:
    scores, origins = torch.randn(12, count), torch.arange(12) % count
    detector = fit_detector(scores, origins, torch.ones(12))
    said = detector(scores)
    assert all(bool(torch.isfinite(value).all()) for value in detector.state_dict().values())
    assert bool(((said >= 0) & (said <= 1)).all())
    if count == 1:
        assert_close(said, torch.full((12,), 0.5))  # nothing to compare with, and nothing is claimed


@pytest.mark.parametrize(
    "scores",
    [
        torch.zeros(6, 5),
        torch.full((6, 5), lowest(torch.float32)),
        1e30 * torch.randn(6, 5),
        torch.randn(6, 5).scatter_add(1, torch.arange(6)[:, None] % 5, torch.full((6, 1), 1e6)),
    ],
    ids=["ties", "unknown", "huge", "separable"],
)
@pytest.mark.parametrize("weight", [0.0, 1.0])
def test_a_detector_of_any_scores_has_finite_numbers(scores: Tensor, weight: float) -> None:
    detector = fit_detector(scores, torch.arange(6) % 5, torch.full((6,), weight))
    assert all(bool(torch.isfinite(value).all()) for value in detector.state_dict().values())
    assert bool(torch.isfinite(detector(scores)).all())


def test_a_detector_of_no_pairs_claims_nothing() -> None:
    detector = fit_detector(torch.zeros(0, 5), torch.zeros(0).long(), torch.zeros(0))
    assert_close(detector(torch.randn(4, 5)), torch.full((4,), 0.5))


@given(scores=score_rows())
def test_features_are_evidence_lead_mean_and_spread(scores: Tensor) -> None:
    for row, found in zip(scores, Evidence.of(scores).features(), strict=True):
        ordered = row.sort(descending=True).values
        rest = ordered[1:].exp().mean().log() if len(ordered) > 1 else ordered[0]
        spread = (row - row.mean()).square().mean().sqrt()
        expected = torch.stack([row.exp().mean().log(), ordered[0] - rest, row.mean(), spread])
        assert_close(found, expected)


@given(scores=score_rows())
def test_a_query_is_judged_alone_and_the_patterns_in_any_order(scores: Tensor) -> None:
    detector, order = moved_detector(), torch.randperm(scores.shape[1])
    said = detector(scores)
    assert_close(detector(scores[:, order]), said)
    for row, each in zip(scores, said, strict=True):
        assert_close(detector(row[None])[0], each)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_detector_keeps_the_dtype(dtype: torch.dtype) -> None:
    scores = torch.randn(5, 4, dtype=dtype)
    assert moved_detector()(scores).dtype == dtype
    assert moved_detector().double()(scores).dtype == dtype
    assert_close(moved_detector()(scores.double()).to(dtype), moved_detector()(scores))
    assert moved_detector()(scores[:0]).shape == (0,)
