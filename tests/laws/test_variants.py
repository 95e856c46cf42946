"""What every variant distribution keeps: draws that can be repeated, and likelihoods that are densities."""

from collections.abc import Callable
from itertools import combinations, product
from math import comb, log, pi
from typing import Any, Literal

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.testing import assert_close

import ahop
from ahop.variants.base import Variant
from ahop.variants.masked import LEVELS
from tests.catalogue import LEARNED_MIXTURES, VARIANTS, WITHOUT_LIKELIHOOD
from tests.strategies import Problem, gapped_problems, problem, seeds, with_gaps

every_variant = pytest.mark.parametrize("name", VARIANTS)
every_known_variant = pytest.mark.parametrize("name", [name for name in VARIANTS if name not in WITHOUT_LIKELIHOOD])
both_dtypes = pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
Signs = Literal["constant", "per_query"]
both_signs = pytest.mark.parametrize("signs", ["constant", "per_query"])


def mixed(**words: Any) -> ahop.MixedVariant:
    return ahop.MixedVariant(0.1, 0.0, 0.0, **words)


def uniform_patterns(count: int, dimensions: int, dtype: torch.dtype = torch.float64) -> Tensor:
    return 2 * torch.rand(count, dimensions, dtype=dtype) - 1


@every_variant
@given(seed=seeds, count=st.integers(1, 20))
def test_the_same_seed_draws_the_same_pairs(name: str, seed: int, count: int) -> None:
    variant, patterns = VARIANTS[name](4), problem().patterns
    first, second = variant.sample(patterns, count, seed), variant.sample(patterns, count, seed)
    assert torch.equal(first.origins, second.origins)
    assert_close(first.queries, second.queries, rtol=0, atol=0, equal_nan=True)
    assert first.queries.shape == (count, 4)
    assert len(first) == count
    assert bool(((first.origins >= 0) & (first.origins < 5)).all())


@every_variant
def test_a_generator_goes_on_where_it_stopped(name: str) -> None:
    variant, patterns = VARIANTS[name](4), problem(count=50).patterns
    generator = torch.Generator().manual_seed(3)
    first, second = variant.sample(patterns, 20, generator), variant.sample(patterns, 20, generator)
    assert torch.equal(first.origins, variant.sample(patterns, 20, 3).origins)
    assert not torch.equal(first.origins, second.origins)


@every_variant
def test_drawing_leaves_everything_else_as_it_was(name: str) -> None:
    patterns, state = problem().patterns, torch.get_rng_state()
    before = patterns.clone()
    queries = VARIANTS[name](4).sample(patterns, 20).queries
    queries.zero_()
    assert torch.equal(patterns, before)
    assert torch.equal(torch.get_rng_state(), state)


@every_variant
def test_a_corrupted_copy_is_a_copy(name: str) -> None:
    originals = problem().patterns
    before = originals.clone()
    VARIANTS[name](4).corrupt(originals, torch.Generator().manual_seed(0)).zero_()
    assert torch.equal(originals, before)


@every_variant
@both_dtypes
@pytest.mark.parametrize(("count", "dimensions"), [(5, 4), (1, 1)])
def test_queries_have_the_dtype_of_the_patterns(name: str, dtype: torch.dtype, count: int, dimensions: int) -> None:
    variant, patterns = VARIANTS[name](dimensions), problem(count, dimensions, dtype=dtype).patterns
    pairs = variant.sample(patterns, 3)
    assert pairs.queries.dtype == dtype
    if name not in WITHOUT_LIKELIHOOD:
        likelihood = variant.log_likelihood(patterns, pairs.queries)
        assert likelihood.dtype == dtype
        assert likelihood.shape == (3, count)


# A copy has standard deviations of its own, and those of its origin move its values.
@pytest.mark.parametrize("name", [name for name in VARIANTS if name != "values and standard deviations"])
@pytest.mark.parametrize("count", [1, 200])
def test_a_copy_has_a_gap_where_its_origin_has_and_the_same_numbers_elsewhere(name: str, count: int) -> None:
    variant, patterns = VARIANTS[name](6), problem(20, 6).patterns
    gaps = torch.rand(20, 6) < 0.3
    complete = variant.sample(patterns, count, seed=1)
    pairs = variant.sample(patterns.masked_fill(gaps, torch.nan), count, seed=1)
    expected = complete.queries.masked_fill(gaps[complete.origins], torch.nan)
    assert_close(pairs.queries, expected, rtol=0, atol=0, equal_nan=True)


@every_variant
def test_origins_follow_the_prior(name: str) -> None:
    patterns = problem(count=3).patterns
    log_prior = torch.tensor([0.5, 0.5, 0.0]).log()
    origins = VARIANTS[name](4).sample(patterns, 400, log_prior=log_prior).origins
    counts = torch.bincount(origins, minlength=3)
    assert counts[2] == 0
    assert 150 < counts[0] < 250


@every_variant
def test_a_count_is_at_least_one(name: str) -> None:
    with pytest.raises(ahop.errors.InvalidValueError, match="`count` must be a whole number of at least 1; got 0"):
        VARIANTS[name](4).sample(problem().patterns, 0)


@every_known_variant
def test_what_was_drawn_was_possible(name: str) -> None:
    variant = VARIANTS[name](4)
    for dtype in (torch.float32, torch.float64):
        patterns = uniform_patterns(5, 4, dtype)
        pairs = variant.sample(patterns, 200)
        likelihood = variant.log_likelihood(patterns, pairs.queries)
        assert bool(torch.isfinite(likelihood[torch.arange(200), pairs.origins]).all())


@every_known_variant
def test_each_likelihood_is_on_its_own(name: str) -> None:
    variant, patterns = VARIANTS[name](4), problem().patterns
    queries = variant.sample(patterns, 3).queries
    each = [torch.cat([variant.log_likelihood(p[None], q[None]) for p in patterns], dim=-1) for q in queries]
    assert_close(variant.log_likelihood(patterns, queries), torch.cat(each))
    assert variant.log_likelihood(patterns, queries[:0]).shape == (0, 5)


@pytest.mark.parametrize(
    "variant",
    [
        ahop.NoisyVariant(0.04),
        ahop.NoisyVariant(1e-8),
        ahop.variants.ComposedVariant(
            [ahop.variants.BiasedVariant(0.3), ahop.NoisyVariant(0.04), ahop.NoisyVariant(0.01)]
        ),
        ahop.MixedVariant(0.0, 0.3, 0.2),
        ahop.MixedVariant(0.0, 0.3, 0.2, signs="per_query"),
        ahop.MixedVariant(0.0, 1e-4, 0.2),
        ahop.MixedVariant(0.0, 1e-4, 0.2, signs="per_query"),
        ahop.MixedVariant(0.0, 0.0, 0.2, signs="per_query"),
        ahop.MixedVariant(1.0, 0.3, 0.2),
        ahop.MixedVariant(1.0, 0.3, 0.2, signs="per_query"),
    ],
    ids=repr,
)
def test_a_likelihood_in_one_dimension_integrates_to_one(variant: Variant) -> None:
    pattern = torch.tensor([[0.4]], dtype=torch.float64)
    coarse = torch.linspace(-6, 6, 200_001, dtype=torch.float64)
    fine = torch.linspace(-1e-3, 1e-3, 20_001, dtype=torch.float64)
    centers = variant.sample(pattern, 20).queries.flatten()
    grid = torch.cat([coarse, *(center + fine for center in centers)]).sort().values
    density = variant.log_likelihood(pattern, grid[:, None]).exp().squeeze(-1)
    assert_close(float(torch.trapezoid(density, grid)), 1.0, rtol=0, atol=1e-4)


@both_signs
def test_a_likelihood_is_the_histogram_of_its_samples(signs: Signs) -> None:
    variant = ahop.MixedVariant(0.0, 0.2, 0.5, signs=signs)
    pattern = torch.tensor([[0.1]], dtype=torch.float64)
    edges = torch.linspace(-2, 2, 21, dtype=torch.float64)
    counts = torch.histogram(variant.sample(pattern, 20_000).queries.flatten(), edges).hist / 20_000
    points = torch.linspace(-2, 2, 2001, dtype=torch.float64)
    density = variant.log_likelihood(pattern, points[:, None]).exp().squeeze(-1)
    expected = torch.stack([torch.trapezoid(density[100 * i : 100 * i + 101], dx=0.002) for i in range(20)])
    assert_close(counts, expected, rtol=0, atol=0.015)


every_learned_variant = pytest.mark.parametrize("name", LEARNED_MIXTURES)


def learned(name: str, dimensions: int) -> ahop.variants.MixtureVariant:
    variant = VARIANTS[name](dimensions)
    assert isinstance(variant, ahop.variants.MixtureVariant)
    return variant


@every_learned_variant
@pytest.mark.parametrize("value", [-1.7, 0.4, 30.0, float("nan")])
def test_a_learned_density_and_its_missing_mass_are_about_one(name: str, value: float) -> None:
    """Outliers falls off beyond its ends, where none was seen, on top of its mass between them: hence the tolerance."""
    variant = learned(name, 1)
    pattern = torch.tensor([[value]], dtype=torch.float64)
    grid = torch.linspace(-50, 50, 200_001, dtype=torch.float64)
    gap = torch.full((1, 1), torch.nan, dtype=torch.float64)
    density = variant.log_likelihood(pattern, grid[:, None]).exp().squeeze(-1)
    total = torch.trapezoid(density, grid) + variant.log_likelihood(pattern, gap).exp().sum()
    assert_close(float(total), 1.0, rtol=0, atol=0.01)
    background = variant.log_background(grid[:, None]).exp()
    total = torch.trapezoid(background, grid) + variant.log_background(gap).exp().sum()
    assert_close(float(total), 1.0, rtol=0, atol=0.01)


@every_learned_variant
def test_a_learned_likelihood_is_the_histogram_of_its_samples(name: str) -> None:
    variant, count = learned(name, 1), 40_000
    pattern = torch.tensor([[0.4]], dtype=torch.float64)
    queries = variant.sample(pattern, count).queries.flatten()
    missing = variant.log_likelihood(pattern, torch.full((1, 1), torch.nan, dtype=torch.float64)).exp()
    assert_close(float(queries.isnan().double().mean()), float(missing), rtol=0, atol=0.01)
    edges = torch.linspace(-4, 4, 21, dtype=torch.float64)
    counts = torch.histogram(queries[~queries.isnan()], edges).hist / count
    points = torch.linspace(-4, 4, 4001, dtype=torch.float64)
    density = variant.log_likelihood(pattern, points[:, None]).exp().squeeze(-1)
    expected = torch.stack([torch.trapezoid(density[200 * i : 200 * i + 201], dx=0.002) for i in range(20)])
    assert_close(counts, expected, rtol=0, atol=0.01)


@every_learned_variant
@given(case=gapped_problems)
def test_a_learned_likelihood_is_evidence_beside_the_background(name: str, case: Problem) -> None:
    variant = learned(name, case.sizes[0])
    evidence = variant.evidence(case.patterns, case.queries)
    assert_close(evidence, variant.evidence_per_dimension(case.patterns, case.queries).sum(-1))
    background = variant.log_background(case.queries)
    assert background.shape == (len(case.queries),)
    assert_close(variant.log_likelihood(case.patterns, case.queries), evidence + background.unsqueeze(-1))


@every_learned_variant
def test_evidence_with_gradients_is_the_same_without(name: str) -> None:
    variant, case = learned(name, 4), with_gaps(problem(count=7, batch=6))
    plain = variant.evidence(case.patterns, case.queries)
    assert_close(variant.evidence(case.patterns.requires_grad_(), case.queries).detach(), plain)


@every_learned_variant
@pytest.mark.parametrize("unit", [1e-25, 1e-20, 1e20, 1e25])
def test_evidence_knows_no_units(name: str, unit: float) -> None:
    variant, scaled = learned(name, 4), learned(name, 4)
    case = with_gaps(problem(count=7, batch=6, dtype=torch.float32))
    for each in (scaled.bias, scaled.std, scaled.center, scaled.scale, scaled.population, scaled.missingness.edges):
        each.mul_(unit)
    found = scaled.evidence(unit * case.patterns, unit * case.queries)
    assert_close(found, variant.evidence(case.patterns, case.queries), rtol=1e-3, atol=1e-3)


@every_learned_variant
def test_as_much_goes_missing_as_the_rates_say(name: str) -> None:
    variant, patterns = learned(name, 3), problem(count=4, dimensions=3).patterns
    pairs = variant.sample(patterns, 20_000)
    rates = torch.stack([pairs.queries[pairs.origins == row].isnan().double().mean(0) for row in range(4)])
    assert_close(rates, variant.missingness.rates(patterns), rtol=0, atol=0.03)
    assert float(rates.max() - rates.min()) > 0.1


@every_learned_variant
def test_evidence_is_above_zero_for_the_origin_and_below_for_others(name: str) -> None:
    """On average, as Gibbs' inequality says where the population is that of the patterns."""
    variant, patterns = learned(name, 8), torch.randn(33, 8, dtype=torch.float64)
    variant.population.copy_(patterns.sort(0).values.mT)
    pairs = variant.sample(patterns, 500)
    evidence = variant.evidence(patterns, pairs.queries)
    own = evidence[torch.arange(500), pairs.origins]
    others = evidence.scatter(1, pairs.origins[:, None], torch.nan)
    assert float(own.mean()) > 0.5
    assert float(others.nanmean()) < -0.5


@every_learned_variant
def test_only_a_bias_of_constant_sign_is_a_shift(name: str) -> None:
    variant = learned(name, 3)
    assert_close(variant.shift, torch.zeros(3) if variant.signs else variant.bias)


def _mixed_by_enumeration(variant: ahop.MixedVariant, patterns: Tensor, queries: Tensor) -> Tensor:
    """The sum over all subsets of redrawn dimensions and, for each dimension, over all signs."""
    dimensions = patterns.shape[-1]
    if variant.signs == "constant":
        shifts = [variant.constant_bias(dimensions).to(patterns)]
    else:
        shifts = [torch.full_like(patterns[0], sign * variant.bias) for sign in (1, -1)]
    variance = max(variant.std, 1e-5) ** 2
    moved = [torch.zeros_like(shift) for shift in shifts] if variant.mask_last else shifts
    inside = torch.stack([(queries - shift).abs() <= 1 + 1e-5 for shift in moved])
    outliers = (0.5 * inside.double()).log().logsumexp(0)
    differences = torch.stack([queries[:, None] - patterns - shift for shift in shifts])
    kept = (-0.5 * differences.square() / variance - 0.5 * log(2 * pi * variance)).logsumexp(0)
    outliers = outliers[:, None].expand_as(kept)
    redrawn = variant.redrawn(dimensions)
    terms = []
    for chosen in combinations(range(dimensions), redrawn):
        mask = torch.zeros(dimensions, dtype=torch.bool)
        mask[list(chosen)] = True
        terms.append(torch.where(mask, outliers, kept).sum(-1))
    return torch.stack(terms).logsumexp(0) - log(comb(dimensions, redrawn)) - dimensions * log(len(shifts))


@both_signs
@pytest.mark.parametrize("mask_last", [False, True])
@settings(max_examples=max(15, settings().max_examples))
@given(
    dimensions=st.sampled_from([1, 2, 3, 5, 8]),
    mask=st.sampled_from([0.0, 0.3, 0.5, 0.8, 1.0]),
    noise=st.sampled_from([0.0, 1e-3, 0.05, 0.3, 1.0]),
)
def test_the_mixed_likelihood_is_the_sum_over_all_subsets(
    signs: Signs, mask_last: bool, dimensions: int, mask: float, noise: float
) -> None:
    """The saddle point is exact where nothing or everything is redrawn, else to a factor of 1.19 = exp(0.174)."""
    variant = ahop.MixedVariant(mask, noise, 0.2, signs=signs, mask_last=mask_last)
    patterns = uniform_patterns(10, dimensions)
    queries = variant.sample(patterns, 20).queries
    found, exact = variant.log_likelihood(patterns, queries), _mixed_by_enumeration(variant, patterns, queries)
    certain = variant.redrawn(dimensions) in (0, dimensions)
    assert_close(found, exact, rtol=1e-9, atol=1e-9 if certain else 0.174)
    difference = torch.softmax(found, -1) - torch.softmax(exact, -1)
    assert float(difference.abs().max()) < 0.05


@pytest.mark.parametrize("noise", [0.0, 1e-4, 1e-3, 0.01])
def test_the_mixed_likelihood_finds_the_origin_however_small_the_noise(noise: float) -> None:
    variant = ahop.MixedVariant(0.5, noise, 0.3)
    patterns = uniform_patterns(50, 12, torch.float32)
    pairs = variant.sample(patterns, 50)
    assert torch.equal(variant.log_likelihood(patterns, pairs.queries).argmax(-1), pairs.origins)


@both_signs
def test_mixed_queries_have_exactly_the_share_of_redrawn_dimensions(signs: Signs) -> None:
    variant = ahop.MixedVariant(0.4, 0.0, 0.0, signs=signs)
    patterns = 5 + uniform_patterns(3, 10)
    pairs = variant.sample(patterns, 30)
    assert torch.equal((pairs.queries != patterns[pairs.origins]).sum(-1), torch.full((30,), 4))


def test_values_redrawn_last_have_no_bias() -> None:
    patterns = torch.zeros(1, 1000)
    first = ahop.MixedVariant(0.5, 0.0, 3.0, signs="per_query").sample(patterns, 4).queries
    last = ahop.MixedVariant(0.5, 0.0, 3.0, signs="per_query", mask_last=True).sample(patterns, 4).queries
    assert bool((first.abs() >= 2).all())
    assert torch.equal((last.abs() <= 1).sum(-1), torch.full((4,), 500))
    assert torch.equal((last.abs() == 3).sum(-1), torch.full((4,), 500))


def test_noise_is_read_as_a_deviation_or_as_a_variance() -> None:
    assert ahop.MixedVariant(0.0, 0.09, 0.0).std == pytest.approx(0.09)
    assert ahop.MixedVariant(0.0, 0.09, 0.0, reading="variance").std == pytest.approx(0.3)


def test_constant_signs_are_constant_and_other_signs_are_not() -> None:
    patterns = torch.zeros(1, 30)
    constant = ahop.MixedVariant(0.0, 0.0, 0.5, seed=4).sample(patterns, 10).queries
    assert torch.equal(constant, ahop.MixedVariant(0.0, 0.0, 0.5, seed=4).constant_bias(30).expand(10, 30))
    assert not torch.equal(constant[0], ahop.MixedVariant(0.0, 0.0, 0.5, seed=5).constant_bias(30))
    changing = ahop.MixedVariant(0.0, 0.0, 0.5, signs="per_query").sample(patterns, 10).queries
    assert torch.equal(changing.abs(), torch.full((10, 30), 0.5))
    assert not torch.equal(changing[0], changing[1])


@pytest.mark.parametrize("rate", [0.0, 0.2, 0.7, 1.0])
def test_the_masked_likelihood_is_the_sum_over_all_masks(rate: float) -> None:
    variant, patterns = ahop.variants.MaskedVariant(rate, low=-2.0, high=1.0), uniform_patterns(4, 4)
    queries = variant.sample(patterns, 10).queries
    queries[0, 0] = 3.0  # no mask can explain this one
    inside = ((queries >= -2) & (queries <= 1)).double() / LEVELS
    same = (queries[:, None] == patterns).double()
    exact = torch.zeros(10, 4, dtype=torch.float64)
    for mask in product([False, True], repeat=4):
        redrawn = torch.tensor(mask)
        chance = rate ** sum(mask) * (1 - rate) ** (4 - sum(mask))
        exact += chance * torch.where(redrawn, inside[:, None], same).prod(-1)
    assert_close(variant.log_likelihood(patterns, queries), exact.log(), rtol=1e-9, atol=1e-9)


@given(seed=seeds)
def test_noise_and_bias_compose_to_one_gaussian(seed: int) -> None:
    case = problem(seed=seed)
    first, second = torch.tensor([0.1, 0.2, 0.3, 0.4]), 0.5
    shift = torch.tensor([1.0, -1.0, 0.5, 0.0])
    composed = ahop.variants.ComposedVariant(
        [
            ahop.NoisyVariant(first),
            ahop.variants.BiasedVariant(shift),
            ahop.NoisyVariant(second),
            ahop.variants.BiasedVariant(0.25),
        ]
    )
    gaussian = torch.distributions.Normal(case.patterns + shift + 0.25, (first.double() + second).sqrt())
    exact: Tensor = gaussian.log_prob(case.queries[:, None]).sum(-1)  # type: ignore[no-untyped-call]
    assert_close(composed.log_likelihood(case.patterns, case.queries), exact, rtol=1e-6, atol=1e-6)


def test_parts_are_applied_in_order() -> None:
    shift, masks = ahop.variants.BiasedVariant(10.0), ahop.variants.MaskedVariant(1.0)
    patterns = torch.zeros(1, 50)
    assert float(ahop.variants.ComposedVariant([shift, masks]).sample(patterns, 1).queries.max()) <= 1
    assert float(ahop.variants.ComposedVariant([masks, shift]).sample(patterns, 1).queries.min()) >= 9


def test_a_bias_alone_is_exactly_known() -> None:
    patterns = torch.tensor([[0.0, 0.0], [1.0, 1.0]])
    likelihood = ahop.variants.BiasedVariant([0.5, -0.5]).log_likelihood(
        patterns, torch.tensor([[0.5, -0.5], [0.6, -0.5]])
    )
    assert torch.equal(likelihood, torch.tensor([[0.0, -torch.inf], [-torch.inf, -torch.inf]]))


@pytest.mark.parametrize(
    "variant",
    [
        ahop.variants.ComposedVariant([ahop.NoisyVariant(0.1), ahop.variants.MaskedVariant(0.2)]),
        ahop.variants.ComposedVariant([ahop.variants.BiasedVariant(0.1), ahop.variants.BiasedVariant(0.2)]),
        ahop.variants.ComposedVariant(
            [ahop.NoisyVariant(0.1), ahop.variants.ComposedVariant([ahop.variants.MaskedVariant(0.2)])]
        ),
    ],
    ids=repr,
)
def test_a_likelihood_that_is_not_known_is_not_made_up(variant: Variant) -> None:
    with pytest.raises(ahop.errors.UnsupportedError, match=r"no closed-form likelihood\. Learn one from its samples"):
        variant.log_likelihood(torch.zeros(2, 3), torch.zeros(1, 3))


@every_known_variant
@pytest.mark.parametrize("with_prior", [False, True])
def test_a_posterior_is_normalized(name: str, with_prior: bool) -> None:
    variant, patterns = VARIANTS[name](4), uniform_patterns(5, 4)
    log_prior = torch.randn(5, dtype=torch.float64) if with_prior else None
    pairs = variant.sample(patterns, 30, log_prior=log_prior)
    posterior = ahop.variants.log_posterior(variant, patterns, pairs.queries, log_prior)
    assert_close(posterior.exp().sum(-1), torch.ones(30).double())
    likelihood = variant.log_likelihood(patterns, pairs.queries) + (0 if log_prior is None else log_prior)
    assert torch.equal(posterior.argmax(-1), likelihood.argmax(-1))


@pytest.mark.parametrize(
    "variant",
    [
        ahop.variants.BiasedVariant(0.1),
        ahop.variants.MaskedVariant(0.4),
        ahop.MixedVariant(0.5, 0.1, 0.0),
        ahop.MixedVariant(1.0, 0.1, 0.0, signs="per_query"),
    ],
    ids=repr,
)
@both_dtypes
def test_a_query_that_no_pattern_can_have_produced_gets_the_prior(variant: Variant, dtype: torch.dtype) -> None:
    patterns, log_prior = uniform_patterns(3, 4, dtype), torch.tensor([0.5, 0.25, 0.25], dtype=dtype).log()
    queries = torch.full((1, 4), 50.0, dtype=dtype)
    assert_close(ahop.variants.log_posterior(variant, patterns, queries, log_prior), log_prior[None])
    assert_close(ahop.variants.log_posterior(variant, patterns, queries).exp(), torch.full((1, 3), 1 / 3, dtype=dtype))


@every_known_variant
@both_dtypes
@pytest.mark.parametrize("count", [3, 40])
def test_a_posterior_of_huge_values_is_finite_and_normalized(name: str, dtype: torch.dtype, count: int) -> None:
    variant, patterns = VARIANTS[name](4), 1e30 * problem(count, dtype=dtype).patterns
    queries = torch.cat([patterns, patterns.flip(0), torch.zeros(1, 4, dtype=dtype)])
    posterior = ahop.variants.log_posterior(variant, patterns, queries).exp()
    assert_close(posterior.sum(-1), torch.ones(len(queries), dtype=dtype))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ahop.NoisyVariant(0.0), "`variance` must be positive"),
        (lambda: ahop.NoisyVariant([0.1, -0.1]), "`variance` must be positive"),
        (lambda: ahop.NoisyVariant(float("nan")), "`variance` must be finite; got nan"),
        (lambda: ahop.NoisyVariant([0.1, float("inf")]), "`variance` must be finite"),
        (lambda: ahop.variants.BiasedVariant(float("nan")), "`bias` must be finite; got nan"),
        (lambda: ahop.variants.BiasedVariant(0.0, tolerance=-1.0), "`tolerance` must be zero or larger"),
        (lambda: ahop.variants.BiasedVariant(torch.zeros(2, 2)), r"`bias` must be a number or a vector.*\(2, 2\)"),
        (lambda: ahop.variants.MaskedVariant(1.5), r"`rate` is a share.*\[0, 1\]; got 1.5"),
        (lambda: ahop.variants.MaskedVariant(0.5, 1.0, 1.0), "`low` must be below `high`; got 1.0 and 1.0"),
        (lambda: ahop.MixedVariant(-0.1, 0.0, 0.0), "`mask` is a share"),
        (lambda: ahop.MixedVariant(0.1, -0.1, 0.0), "`noise` must be zero or larger"),
        (lambda: ahop.MixedVariant(0.1, 0.0, float("inf")), "`bias` must be zero or larger, and finite"),
        (lambda: mixed(reading="sd"), "`reading` must be one of 'std', 'variance'; got 'sd'"),
        (lambda: mixed(signs="both"), "`signs` must be one of 'constant', 'per_query'; got 'both'"),
        (lambda: ahop.variants.ComposedVariant([]), "`parts` must hold at least one variant; got none"),
        (lambda: ahop.Pairs(torch.zeros(2).long(), torch.zeros(3, 2)), "same length; got 2 and 3"),
    ],
)
def test_arguments_without_meaning_are_refused(make: Callable[[], object], message: str, unchecked: None) -> None:
    with pytest.raises(ahop.errors.AhopError, match=message):
        make()
