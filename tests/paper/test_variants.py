"""How queries are born [def:var-dis]: noisy [def:noisy-var], masked [def:masked-var], biased [def:biased-var]."""

from itertools import product
from math import exp, log, pi

import pytest
import torch

from ahop import AssociativeMemory, NoisyVariant
from ahop.paper.criteria import bayes_accuracy, retrieval_accuracy
from ahop.separations import Argmax
from ahop.similarities import MatchSimilarity
from ahop.variants import BiasedVariant, ComposedVariant, MaskedVariant, log_posterior
from ahop.variants.base import Variant
from ahop.variants.masked import LEVELS
from tests.paper.worlds import four_standard_errors, gaussian, uniform_patterns

VARIANTS = [NoisyVariant(0.2), MaskedVariant(0.4), BiasedVariant(0.3), ComposedVariant([NoisyVariant(0.2)])]


@pytest.mark.parametrize("variant", VARIANTS, ids=repr)
def test_a_variant_distribution_draws_pairs_of_a_stored_pattern_and_a_query(variant: Variant) -> None:
    patterns = uniform_patterns(6, 5)
    pairs = variant.sample(patterns, 3000)
    assert pairs.queries.shape == (3000, 5)
    shares = torch.bincount(pairs.origins, minlength=6) / 3000
    assert (shares - 1 / 6).abs().max() < four_standard_errors(1 / 6, 3000), "a uniform prior, unless one is given"


# --- noisy


def test_the_noisy_likelihood_is_the_printed_density() -> None:
    patterns, queries, variance = uniform_patterns(4, 3), gaussian(5, 3), torch.tensor([0.1, 0.5, 2.0])
    expected = torch.empty(5, 4, dtype=torch.float64)
    for b, x in enumerate(queries.tolist()):
        for n, xi in enumerate(patterns.tolist()):
            quadratic = sum((x[i] - xi[i]) ** 2 / float(variance[i]) for i in range(3))
            determinant = float(variance.double().prod())
            expected[b, n] = log((2 * pi) ** -1.5 * determinant**-0.5 * exp(-0.5 * quadratic))
    torch.testing.assert_close(NoisyVariant(variance).log_likelihood(patterns, queries), expected)


def test_the_isotropic_noisy_likelihood_is_the_printed_short_form() -> None:
    patterns, queries, variance = uniform_patterns(4, 3), gaussian(5, 3), 0.25
    distances = (queries[:, None] - patterns).square().sum(-1)
    expected = (2 * pi * variance) ** (-3 / 2) * torch.exp(-distances / (2 * variance))
    torch.testing.assert_close(NoisyVariant(variance).log_likelihood(patterns, queries).exp(), expected)


def test_noise_has_the_variance_it_is_given_and_no_covariance() -> None:
    patterns, variance = uniform_patterns(4, 3), torch.tensor([0.1, 0.5, 2.0])
    pairs = NoisyVariant(variance).sample(patterns, 20_000)
    covariance = torch.cov((pairs.queries - patterns[pairs.origins]).mT)
    scale = variance.sqrt().double()
    torch.testing.assert_close(covariance / torch.outer(scale, scale), torch.eye(3).double(), rtol=0, atol=0.04)


# --- masked


def test_masking_redraws_each_dimension_with_its_rate_and_within_its_range() -> None:
    patterns = uniform_patterns(4, 10)
    pairs = MaskedVariant(0.3, low=2.0, high=2.5).sample(patterns, 2000)
    redrawn = pairs.queries != patterns[pairs.origins]
    assert abs(float(redrawn.double().mean()) - 0.3) < four_standard_errors(0.3, redrawn.numel())
    assert bool((pairs.queries[redrawn] >= 2).all())
    assert bool((pairs.queries[redrawn] <= 2.5).all())


def masked_mass(kept: float, redrawn: float, dimensions: int) -> float:
    """All that a masked likelihood adds up to, over every choice of kept and redrawn dimensions."""
    choices = product([kept, redrawn], repeat=dimensions)
    return sum(float(torch.tensor(choice, dtype=torch.float64).prod()) for choice in choices)


@pytest.mark.parametrize("rate", [0.2, 0.5, 0.8])
def test_the_masked_likelihood_sums_to_one_with_the_factor_for_kept_dimensions_and_not_as_printed(rate: float) -> None:
    assert masked_mass(1 - rate, rate, dimensions=4) == pytest.approx(1)
    assert masked_mass(1, rate, dimensions=4) == pytest.approx((1 + rate) ** 4), "as printed"


@pytest.mark.parametrize("rate", [0.2, 0.5, 0.8])
def test_the_masked_likelihood_of_one_dimension_adds_up_over_all_values_that_can_be_drawn(rate: float) -> None:
    variant, pattern = MaskedVariant(rate), torch.tensor([[0.25]], dtype=torch.float64)
    same, other = variant.log_likelihood(pattern, torch.tensor([[0.25], [0.5]], dtype=torch.float64)).exp().flatten()
    assert float(same + (LEVELS - 1) * other) == pytest.approx(1)
    outside = variant.log_likelihood(pattern, torch.tensor([[1.5]], dtype=torch.float64))
    assert float(outside) == -torch.inf, "what the generator cannot draw is impossible"


@pytest.mark.parametrize("rate", [0.3, 0.6, 0.9])
def test_the_masked_posterior_is_as_sure_as_it_is_right_and_the_printed_one_is_not(rate: float) -> None:
    """Patterns at the corners of a cube share values, so a query often has several possible origins."""
    corners = torch.tensor(list(product([-0.5, 0.5], repeat=3)), dtype=torch.float64)
    variant, count = MaskedVariant(rate), 20_000
    pairs = variant.sample(corners, count)
    truth = pairs.origins[:, None]

    confidence = log_posterior(variant, corners, pairs.queries).exp().gather(1, truth).mean()
    differing = (pairs.queries[:, None] != corners).sum(-1)
    printed = torch.softmax(log(rate * 0.5) * differing, dim=-1).gather(1, truth).mean()

    # A query that keeps k of its 3 values leaves 2^(3 - k) corners, one as likely as the other.
    kept = 3 - (pairs.queries != corners[pairs.origins]).sum(-1)
    expected = (0.5 ** (3 - kept)).mean()
    assert float(confidence) == pytest.approx(float(expected), abs=1e-4)
    assert float(printed) < float(expected) - 0.02


@pytest.mark.parametrize("rate", [0.3, 0.6, 0.7, 0.8, 0.9])
def test_no_retrieval_beats_the_masked_posterior_however_much_is_masked(rate: float) -> None:
    patterns = uniform_patterns(100, 16)
    counting = AssociativeMemory(patterns, MatchSimilarity(), Argmax())
    variant = MaskedVariant(rate)
    ceiling, found = bayes_accuracy(patterns, variant), retrieval_accuracy(counting, variant)
    assert ceiling == pytest.approx(found, abs=0.01), "they differ by guesses at queries that keep nothing"
    assert found > 0.75


def test_a_density_may_exceed_one_against_what_the_proof_of_the_masked_lemma_says() -> None:
    """U[0, 1/4] has density 4; counting matches is right all the same, for every rate below one."""
    patterns = uniform_patterns(50, 12)
    variant = MaskedVariant(0.9, low=0.0, high=0.25)
    assert log(0.9) + log(4) > 0, "the printed proof needs this sum to be negative"
    counting = AssociativeMemory(patterns, MatchSimilarity(), Argmax())
    assert retrieval_accuracy(counting, variant) == pytest.approx(bayes_accuracy(patterns, variant), abs=0.02)


# --- biased


def test_the_biased_likelihood_is_one_at_the_bias_and_zero_elsewhere() -> None:
    patterns, bias = uniform_patterns(4, 3), torch.tensor([0.5, -1.0, 2.0])
    variant = BiasedVariant(bias)
    likelihood = variant.log_likelihood(patterns, patterns + bias).exp()
    torch.testing.assert_close(likelihood, torch.eye(4, dtype=torch.float64))


def test_a_biased_query_differs_from_its_origin_by_the_same_vector_always() -> None:
    patterns, bias = uniform_patterns(4, 3), torch.tensor([0.5, -1.0, 2.0])
    pairs = BiasedVariant(bias).sample(patterns, 50)
    torch.testing.assert_close(pairs.queries - patterns[pairs.origins], bias.double().expand(50, 3))


def test_noise_and_bias_compose_to_a_shifted_gaussian() -> None:
    """Noise and mask, the composition that the paper draws in fig:cloud, have no such closed form; these two have."""
    patterns, bias = uniform_patterns(4, 3), torch.tensor([0.5, -1.0, 2.0])
    pairs = ComposedVariant([NoisyVariant(0.2), BiasedVariant(bias)]).sample(patterns, 30)
    both = ComposedVariant([NoisyVariant(0.2), BiasedVariant(bias)]).log_likelihood(patterns, pairs.queries)
    torch.testing.assert_close(both, NoisyVariant(0.2).log_likelihood(patterns + bias, pairs.queries))
