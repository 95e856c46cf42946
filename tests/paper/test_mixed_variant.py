"""The mixed variant of the experiments [apd:memory]: its generator, its likelihood, and the ceiling it sets."""

from itertools import combinations
from math import comb, log, pi, sqrt
from typing import Literal

import pytest
import torch
from torch import Tensor

from ahop import MixedVariant
from ahop.paper.criteria import bayes_accuracy
from tests.paper.worlds import four_standard_errors, uniform_patterns

Signs = Literal["constant", "per_query"]
both_signs = pytest.mark.parametrize("signs", ["constant", "per_query"])


def differences(variant: MixedVariant, dimensions: int = 64, count: int = 400) -> Tensor:
    patterns = uniform_patterns(20, dimensions)
    pairs = variant.sample(patterns, count)
    return pairs.queries - patterns[pairs.origins]


# --- the generator


@pytest.mark.parametrize(
    ("dimensions", "mask", "expected"),
    [(64, 0.4, 25), (64, 0.5, 32), (784, 0.6, 470), (10, 0.0, 0), (10, 1.0, 10), (100, 0.57, 57), (100, 0.29, 29)],
)
def test_exactly_the_whole_part_of_the_share_is_redrawn(dimensions: int, mask: float, expected: int) -> None:
    """25.6 dimensions are 25, and 100 times .57 is 57 whatever floating point makes of it."""
    changed = (differences(MixedVariant(mask, 0.0, 0.0), dimensions) != 0).sum(-1)
    assert set(changed.tolist()) == {expected}


def test_which_dimensions_are_redrawn_is_drawn_anew_for_every_query() -> None:
    changed = (differences(MixedVariant(0.25, 0.0, 0.0), count=4000) != 0).double().mean(0)
    assert (changed - 0.25).abs().max() < four_standard_errors(0.25, 4000) * 1.2


def test_noise_is_a_standard_deviation_by_default_and_a_variance_on_request() -> None:
    assert float(differences(MixedVariant(0.0, 0.4, 0.0)).std()) == pytest.approx(0.4, rel=0.02)
    as_variance = differences(MixedVariant(0.0, 0.4, 0.0, reading="variance"))
    assert float(as_variance.var()) == pytest.approx(0.4, rel=0.04)


def test_redrawn_values_are_uniform_and_carry_the_bias_but_no_noise() -> None:
    """The order of the paper: noise, then mask, then bias."""
    patterns = uniform_patterns(20, 64)
    variant = MixedVariant(1.0, 5.0, 0.5)
    outliers = variant.sample(patterns, 400).queries - variant.constant_bias(64)
    assert float(outliers.abs().max()) <= 1 + 1e-6
    assert float(outliers.mean()) == pytest.approx(0, abs=0.02)
    assert float(outliers.var()) == pytest.approx(1 / 3, rel=0.02)


def test_constant_signs_are_one_vector_for_the_whole_distribution() -> None:
    variant = MixedVariant(0.0, 0.0, 0.3)
    shifts = differences(variant)
    torch.testing.assert_close(shifts, variant.constant_bias(64).double().expand_as(shifts))
    torch.testing.assert_close(shifts.abs(), torch.full_like(shifts, 0.3))
    assert not torch.equal(variant.constant_bias(64), MixedVariant(0.0, 0.0, 0.3, seed=1).constant_bias(64))


def test_per_query_signs_are_drawn_for_each_query_and_dimension() -> None:
    shifts = differences(MixedVariant(0.0, 0.0, 0.3, signs="per_query"), count=4000)
    torch.testing.assert_close(shifts.abs(), torch.full_like(shifts, 0.3))
    positive = (shifts > 0).double()
    assert (positive.mean(0) - 0.5).abs().max() < 1.2 * four_standard_errors(0.5, 4000)
    assert len(torch.unique(positive, dim=0)) == 4000


# --- the likelihood


def normal(values: Tensor, std: float) -> Tensor:
    return torch.exp(-0.5 * (values / std) ** 2) / (std * sqrt(2 * pi))


def by_enumeration(variant: MixedVariant, patterns: Tensor, queries: Tensor) -> Tensor:
    """The mean over all choices of redrawn dimensions, each with the density of its parts."""
    dimensions = patterns.shape[1]
    if variant.signs == "constant":
        shifts = variant.constant_bias(dimensions).to(patterns)[None]
    else:
        shifts = torch.tensor([[1.0], [-1.0]], dtype=patterns.dtype).expand(2, dimensions) * variant.bias
    kept = torch.stack([normal(queries[:, None] - patterns - shift, variant.std) for shift in shifts]).mean(0)
    redrawn = torch.stack([((queries - shift).abs() <= 1 + 1e-5).double() / 2 for shift in shifts]).mean(0)[:, None]
    total = torch.zeros(len(queries), len(patterns), dtype=patterns.dtype)
    size = variant.redrawn(dimensions)
    for chosen in combinations(range(dimensions), size):
        mask = torch.zeros(dimensions, dtype=torch.bool)
        mask[list(chosen)] = True
        total += torch.where(mask, redrawn, kept).prod(-1)
    return total.log() - log(comb(dimensions, size))


@both_signs
@pytest.mark.parametrize("noise", [0.02, 0.2, 0.5])
@pytest.mark.parametrize("mask", [0.0, 0.2, 0.5, 0.8, 1.0])
def test_the_likelihood_is_the_mean_over_all_masks(mask: float, noise: float, signs: Signs) -> None:
    """The saddle point is good to a quarter of a nat even in ten dimensions, and its argmax is the exact one."""
    patterns, variant = uniform_patterns(15, 10), MixedVariant(mask, noise, 0.3, signs=signs)
    pairs = variant.sample(patterns, 60)
    ours, exact = variant.log_likelihood(patterns, pairs.queries), by_enumeration(variant, patterns, pairs.queries)
    own = pairs.origins[:, None]
    torch.testing.assert_close(ours.gather(1, own), exact.gather(1, own), rtol=0, atol=0.25)
    if mask < 1:
        assert float((ours.argmax(-1) == exact.argmax(-1)).double().mean()) > 0.95


@both_signs
@pytest.mark.parametrize("noise", [0.0, 1e-4, 0.01])
def test_where_next_to_no_noise_is_added_the_origin_is_beyond_doubt(noise: float, signs: Signs) -> None:
    patterns = uniform_patterns(200, 24, dtype=torch.float32)
    assert bayes_accuracy(patterns, MixedVariant(0.5, noise, 0.3, signs=signs), queries=300) > 0.99


# --- the ceiling


@both_signs
@pytest.mark.parametrize("difficulty", [0.4, 0.5])
def test_the_bayes_ceiling_is_where_it_was_computed(difficulty: float, signs: Signs) -> None:
    """N = 2048, d = 64. The paper's A-Hop reports .724 at .4 and .360 at .5."""
    expected = {(0.4, "constant"): 0.98, (0.4, "per_query"): 0.785, (0.5, "constant"): 0.775, (0.5, "per_query"): 0.38}
    queries = 300
    patterns = uniform_patterns(2048, 64, seed=5, dtype=torch.float32)
    variant = MixedVariant(difficulty, difficulty, difficulty, signs=signs)
    known = expected[difficulty, signs]
    assert abs(bayes_accuracy(patterns, variant, queries) - known) < four_standard_errors(known, queries)


@pytest.mark.parametrize(("difficulty", "reported"), [(0.4, 0.724), (0.5, 0.360)])
def test_read_as_a_variance_the_noise_leaves_no_room_for_the_reported_accuracy(
    difficulty: float, reported: float
) -> None:
    """With signs drawn for each query, which to a model without a de-bias term is all one, nothing could do so well."""
    queries = 300
    patterns = uniform_patterns(2048, 64, seed=5, dtype=torch.float32)
    variant = MixedVariant(difficulty, difficulty, difficulty, signs="per_query", reading="variance")
    ceiling = bayes_accuracy(patterns, variant, queries)
    assert ceiling + four_standard_errors(ceiling, queries) < reported
