"""Similarities to which a gap is evidence: each dimension says what it says, and a gap what its rate says."""

from itertools import product
from math import exp, inf, isnan, log, pi, sqrt

import pytest
import torch
from hypothesis import given, settings
from torch import Tensor
from torch.testing import assert_close

import ahop
from ahop._core.missingness import Missingness
from ahop.similarities.base import DecomposableSimilarity, LinearSimilarity, Similarity
from ahop.variants.density import StepDensity
from tests.catalogue import (
    DECOMPOSABLE,
    LINEAR,
    MADE_OF_OTHERS,
    SILENCE_IS_EVIDENCE,
    made,
    moved_additive,
    moved_mixture,
)
from tests.formulas import score_of
from tests.strategies import FEW, Problem, gapped_problems, problem, with_gaps

every_decomposable = pytest.mark.parametrize("name", [name for name in SILENCE_IS_EVIDENCE if name in DECOMPOSABLE])
NONE = float("nan")


# The slow truth: densities and tables read off one number at a time.


def gap_term(missingness: Missingness, i: int, stored: float, asked: float) -> float:
    level = missingness.levels if isnan(stored) else sum(stored > edge for edge in missingness.edges[i].tolist())
    alone = 1 / (1 + exp(-float(missingness.base[i])))
    moved = 1 / (1 + exp(-float(missingness.base[i]) - float(missingness.shifts[level])))
    return log(moved / alone) if isnan(asked) else log((1 - moved) / (1 - alone))


def normal(value: float, mean: float, std: float) -> float:
    return exp(-0.5 * ((value - mean) / std) ** 2) / (std * sqrt(2 * pi))


def step_density(outliers: StepDensity, value: float) -> float:
    low, high = outliers.ends.tolist()
    width = (high - low) / outliers.steps
    step = min(max(int((value - low) // width), 0), outliers.steps - 1)
    return exp(float(outliers.log_density[step]) - max(low - value, value - high, 0.0) / width)


def mixture_term(variant: ahop.variants.MixtureVariant, i: int, stored: float, asked: float) -> float:
    if isnan(stored) or isnan(asked):
        return 0.0
    gain, bias, std, rate = (float(each[i]) for each in (variant.gain, variant.bias, variant.std, variant.outlier_rate))
    center, scale = float(variant.center[i]), float(variant.scale[i])
    outliers = step_density(variant.outliers, (asked - center) / scale) / scale

    def density(value: float, std: float) -> float:
        shifts = (bias, -bias) if variant.signs else (bias,)
        return sum(normal(asked, value + shift, std) for shift in shifts) / len(shifts)

    places = [gain * place for place in variant.population[i].tolist()]
    around = [places[0], *places, places[-1]]
    widths = [sqrt(std**2 + ((after - before) / 2) ** 2) for before, after in zip(around, around[2:], strict=False)]
    anyone = sum(density(place, width) for place, width in zip(places, widths, strict=True)) / len(places)
    return log(((1 - rate) * density(gain * stored, std) + rate * outliers) / ((1 - rate) * anyone + rate * outliers))


def hat_weights(places: list[float], value: float) -> list[float]:
    """The share of each knot in a value: its two neighbors by distance, or the last one beyond them."""
    value = min(max(value, places[0]), places[-1])
    weights = []
    for k, place in enumerate(places):
        left, right = places[max(k - 1, 0)], places[min(k + 1, len(places) - 1)]
        if value == place:
            weights.append(1.0)
        elif left < value < place:
            weights.append((value - left) / (place - left))
        elif place < value < right:
            weights.append((right - value) / (right - place))
        else:
            weights.append(0.0)
    return weights


def table_term(similarity: ahop.similarities.AdditiveSimilarity, i: int, stored: float, asked: float) -> float:
    if isnan(stored) or isnan(asked):
        return 0.0
    table = (similarity.mixing[i].double()[:, None, None] * similarity.tables.detach().double()).sum(0)
    query = torch.tensor(hat_weights(similarity.query_places[i].tolist(), asked), dtype=torch.float64)
    pattern = torch.tensor(hat_weights(similarity.pattern_places[i].tolist(), stored), dtype=torch.float64)
    return float(query @ table @ pattern)


def agreement_term(similarity: ahop.similarities.AgreementSimilarity, i: int, stored: float, asked: float) -> float:
    if isnan(stored) or isnan(asked):
        return 0.0
    edges, values = [*similarity.edges[i].tolist(), inf], similarity.population[i].tolist()

    def level_of(value: float) -> int:
        return next(level for level, edge in enumerate(edges) if abs(value - stored) <= edge)

    level = level_of(asked)
    met = sum(level_of(value) == level for value in values)
    chance = (met + float(similarity.by_chance[i, level])) / (len(values) + 1)
    return log(float(similarity.copied[i, level]) / chance)


def addend(similarity: Similarity, i: int, stored: float, asked: float) -> float:
    match similarity:
        case ahop.similarities.DebiasedSimilarity():
            return addend(similarity.base, i, stored, asked - float(similarity.bias[i]))
        case ahop.EuclideanSimilarity():
            return -((asked - stored) ** 2)
        case ahop.similarities.AgreementSimilarity():
            return agreement_term(similarity, i, stored, asked)
        case ahop.similarities.AdditiveSimilarity():
            said = float(similarity.gap_weight.detach()) * gap_term(similarity.missingness, i, stored, asked)
            return table_term(similarity, i, stored, asked) + said
        case ahop.likelihood.EvidenceSimilarity() | ahop.likelihood.LikelihoodSimilarity():
            variant = similarity.variant
            assert isinstance(variant, ahop.variants.MixtureVariant)
            return mixture_term(variant, i, stored, asked) + gap_term(variant.missingness, i, stored, asked)
    raise AssertionError(f"say here what {similarity!r} makes of one dimension")


def addends_of(base: Similarity, pattern: Tensor, query: Tensor) -> Tensor:
    pairs = zip(pattern.tolist(), query.tolist(), strict=True)
    values = torch.tensor([addend(base, i, *pair) for i, pair in enumerate(pairs)], dtype=torch.float64)
    if base.missing_is_evidence:
        return values
    mean = values.nanmean() if bool((~values.isnan()).any()) else values.new_zeros(())
    return torch.where(values.isnan(), mean, values)


# Nuisances and forward models tie the dimensions together, and standard deviations have columns of their own; that
# theirs are the densities of Gaussians is in `test_nuisance`, `test_two_spaces` and `test_error_columns`.
@pytest.mark.parametrize(
    "name",
    [
        name
        for name in SILENCE_IS_EVIDENCE
        if "nuisance" not in name and name not in ("forward", "heteroscedastic") and name not in MADE_OF_OTHERS
    ],
)
@settings(max_examples=FEW)
@given(case=gapped_problems)
def test_a_score_is_what_each_dimension_says(name: str, case: Problem) -> None:
    similarity = made(name, case).double()
    scores = similarity(case.patterns, case.queries).detach()
    for (b, query), (n, pattern) in product(enumerate(case.queries), enumerate(case.patterns)):
        assert_close(scores[b, n], score_of(addends_of, similarity, n, pattern, query).detach())


@every_decomposable
@given(case=gapped_problems)
def test_addends_are_what_the_formula_says_of_gaps_too(name: str, case: Problem) -> None:
    similarity = made(name, case)
    assert isinstance(similarity, DecomposableSimilarity)
    addends = similarity.addends(case.patterns, case.queries)
    assert torch.equal(addends, similarity.per_dimension(case.patterns, case.queries))
    assert_close(addends.sum(-1), similarity(case.patterns, case.queries))
    assert_close(addends.sum(-1), similarity.partial(case.patterns, case.queries))


@pytest.mark.parametrize("name", ["evidence, silent gaps", "additive, silent gaps"])
@given(case=gapped_problems)
def test_gaps_that_say_nothing_add_nothing(name: str, case: Problem) -> None:
    similarity = made(name, case)
    assert isinstance(similarity, DecomposableSimilarity)
    addends = similarity.per_dimension(case.patterns, case.queries)
    gaps = case.queries.isnan().unsqueeze(-2) | case.patterns.isnan().unsqueeze(-3)
    assert not bool(addends[gaps].any())
    nothing = torch.full_like(case.queries, torch.nan)
    assert not bool(similarity(case.patterns, nothing).any())


@every_decomposable
def test_a_hole_in_a_pattern_or_a_query_says_what_its_rate_says_and_no_more(name: str) -> None:
    case = with_gaps(problem(count=8, batch=6), seed=3)
    similarity = made(name, case)
    assert isinstance(similarity, DecomposableSimilarity)
    inner = similarity.base if isinstance(similarity, ahop.similarities.DebiasedSimilarity) else similarity
    if isinstance(inner, ahop.similarities.AgreementSimilarity):
        holes = case.queries.isnan().unsqueeze(-2) | case.patterns.isnan().unsqueeze(-3)
        assert not bool(similarity.per_dimension(case.patterns, case.queries)[holes].any())
        return
    weight = float(inner.gap_weight.detach()) if isinstance(inner, ahop.similarities.AdditiveSimilarity) else 1.0
    gap, value = _missingness(inner).evidence_terms(case.patterns)
    expected = weight * torch.where(case.queries.isnan().unsqueeze(-2), gap, value)
    holes = case.queries.isnan().unsqueeze(-2) | case.patterns.isnan().unsqueeze(-3)
    assert bool(holes.any())
    assert torch.equal(similarity.per_dimension(case.patterns, case.queries)[holes], expected[holes])


def _missingness(similarity: Similarity) -> Missingness:
    owner = similarity.variant if isinstance(similarity, ahop.likelihood.EvidenceSimilarity) else similarity
    assert isinstance(owner, ahop.variants.MixtureVariant | ahop.similarities.AdditiveSimilarity)
    return owner.missingness


@pytest.mark.parametrize("name", [name for name in LINEAR if name in SILENCE_IS_EVIDENCE])
@given(case=gapped_problems)
def test_a_score_is_features_times_coefficients(name: str, case: Problem) -> None:
    similarity = made(name, case)
    assert isinstance(similarity, LinearSimilarity)
    features = similarity.features(case.patterns, case.queries)
    assert bool(torch.isfinite(features).all())
    expected = features @ similarity.coefficients.to(features)
    assert_close(similarity(case.patterns, case.queries), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", [name for name in LINEAR if name in SILENCE_IS_EVIDENCE])
def test_features_have_leading_axes_too(name: str) -> None:
    cases = [with_gaps(problem(seed=seed), seed=seed) for seed in range(3)]
    similarity = made(name, cases[0])
    assert isinstance(similarity, LinearSimilarity)
    looped = torch.stack([similarity.features(case.patterns, case.queries) for case in cases])
    patterns, queries = (torch.stack([getattr(case, key) for case in cases]) for key in ("patterns", "queries"))
    assert_close(similarity.features(patterns, queries), looped)


@given(case=gapped_problems)
def test_the_sum_over_gaps_is_a_matrix_product(case: Problem) -> None:
    missingness = moved_mixture(case.sizes[0]).missingness
    gap, value = missingness.evidence_terms(case.patterns)
    said = torch.where(case.queries.isnan().unsqueeze(-2), gap, value).sum(-1)
    assert_close(missingness.evidence(case.patterns, case.queries), said)


def test_terms_of_gaps_are_ratios_of_rates() -> None:
    missingness, patterns = moved_mixture(4).missingness, with_gaps(problem()).patterns
    gap, value = missingness.evidence_terms(patterns)
    rates, alone = missingness.rates(patterns), torch.sigmoid(missingness.base.double())
    assert_close(gap.exp(), rates / alone)
    assert_close(value.exp(), (1 - rates) / (1 - alone))
    assert missingness.is_evidence
    assert not moved_mixture(4, missing_is_informative=False).missingness.is_evidence


def test_a_value_that_an_edge_was_made_of_has_the_same_level_in_either_precision() -> None:
    missingness = Missingness(1, levels=2)
    for number in (0.1, 0.3, 0.7, 1 / 3, 1e-3):
        missingness.edges.fill_(number)
        assert int(missingness.level(torch.tensor([[number]], dtype=torch.float64))) == 0
        assert int(missingness.level(torch.tensor([[number]]))) == 0


def test_knots_that_are_one_in_single_precision_do_no_harm() -> None:
    similarity = moved_additive(2)
    similarity.query_places[0] = 1e4 + 1e-8 * torch.arange(7)
    similarity.pattern_places[0] = 1e4
    values = torch.tensor([[1e4, 0.0], [1e4 + 1, 0.0], [0.0, 0.0], [NONE, 0.0]], requires_grad=True)
    scores = similarity(values, values)
    assert bool(torch.isfinite(scores).all())
    (slope,) = torch.autograd.grad(scores.sum(), values)
    assert bool(torch.isfinite(slope).all())
    assert not bool(slope[:, 0].any())
