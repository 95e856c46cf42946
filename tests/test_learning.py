"""What is learned from pairs: the numbers of a known corruption come back, and no corner breaks a fit."""

import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from math import log
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.testing import assert_close

import ahop
from ahop._core.missingness import Missingness
from ahop.errors import InvalidTypeError, InvalidValueError, ShapeError
from ahop.fitting.choosing.candidate import Candidate
from ahop.fitting.choosing.groups import alignment_helps, numbered
from ahop.fitting.choosing.selection import folds_of
from ahop.fitting.corruption.additive import count_pairs
from ahop.fitting.corruption.gaps import Gaps
from ahop.fitting.corruption.mixture import FORMS, Form, MixtureFit, fit_mixture
from ahop.fitting.corruption.training_set import TrainingSet
from ahop.fitting.fit import SIMILARITIES
from ahop.similarities.base import Similarity
from ahop.variants.base import Variant
from ahop.variants.density import StepDensity
from tests.strategies import FEW, seeds

DIMENSIONS = 16
FIXED = ("euclidean", "manhattan", "dot", "cosine", "correlation")
# Refused where no column holds categories, or standard deviations.
OF_OTHER_COLUMNS = ("categorical", "heteroscedastic")
BY_NAME = [name for name in SIMILARITIES if name not in ("auto", *OF_OTHER_COLUMNS)]
LEARNED = [name for name in BY_NAME if name not in FIXED]
# For these a gap is the lowest strength, which holds for what was not heard.
OF_STRENGTHS = ("heard_sorensen", "powed_sorensen", "heard_cosine", "powed_cosine")


def uniform(count: int, dimensions: int, seed: int = 0) -> Tensor:
    return 2 * torch.rand(count, dimensions, generator=torch.Generator().manual_seed(seed)) - 1


def normal(count: int, dimensions: int, seed: int = 0) -> Tensor:
    return torch.randn(count, dimensions, generator=torch.Generator().manual_seed(seed))


def share_found(memory: ahop.AssociativeMemory, pairs: ahop.Pairs, groups: list[str] | None = None) -> float:
    found = memory.recall(pairs.queries, groups=groups).indices[:, 0] == pairs.origins
    return float(found.double().mean())


def share_first(similarity: Similarity, patterns: Tensor, pairs: ahop.Pairs) -> float:
    return float((similarity(patterns, pairs.queries).argmax(-1) == pairs.origins).double().mean())


def report_of(memory: ahop.AssociativeMemory) -> ahop.FitReport:
    assert isinstance(memory.report, ahop.FitReport)
    return memory.report


def corruption_of(memory: ahop.AssociativeMemory) -> ahop.report.Corruption:
    corruption = report_of(memory).corruption
    assert corruption is not None
    return corruption


def mixture_of(memory: ahop.AssociativeMemory) -> ahop.variants.MixtureVariant:
    assert isinstance(memory.similarity, ahop.likelihood.EvidenceSimilarity)
    assert isinstance(memory.similarity.variant, ahop.variants.MixtureVariant)
    return memory.similarity.variant


def learn(patterns: Tensor, pairs: ahop.Pairs, similarity: str = "mixture") -> ahop.AssociativeMemory:
    return ahop.fit(patterns, pairs=pairs, similarity=similarity, progress=False)


# A mixture that is known.


@dataclass(frozen=True)
class Known:
    """A mixture with known numbers, its patterns, and the unit of each dimension."""

    variant: ahop.variants.MixtureVariant
    patterns: Tensor
    units: Tensor

    def fit(self, count: int, form: Form | None = None, seed: int = 1) -> MixtureFit:
        pairs = self.variant.sample(self.patterns, count, seed)
        return fit_mixture(self.patterns[pairs.origins], pairs.queries, form=form)

    def error(self, name: str, fitted: MixtureFit) -> float:
        """The largest error of a number over the dimensions, in their units."""
        units = self.units if name in ("bias", "std") else torch.ones_like(self.units)
        found, true = getattr(fitted.variant, name), getattr(self.variant, name)
        if name == "bias" and self.variant.signs:
            found, true = found.abs(), true.abs()
        return float(((found - true) / units).abs().max())


def known(signs: bool = False, own_units: bool = False, outliers: float = 0.2, missing: float = 0.1) -> Known:
    generator = torch.Generator().manual_seed(0)
    variant = ahop.variants.MixtureVariant(DIMENSIONS, signs)
    units = torch.logspace(-2, 2, DIMENSIONS) if own_units else torch.ones(DIMENSIONS)
    patterns = torch.randn(200, DIMENSIONS, generator=generator) * units
    bias = torch.full((DIMENSIONS,), 0.5) if signs else 0.4 * torch.randn(DIMENSIONS, generator=generator)
    variant.bias.copy_(bias * units)
    variant.std.copy_((0.15 + 0.1 * torch.rand(DIMENSIONS, generator=generator)) * units)
    variant.outlier_rate.fill_(outliers)
    variant.center.copy_(torch.zeros(DIMENSIONS) if signs else variant.bias)
    variant.scale.copy_(2 * units)
    variant.missingness.base.fill_(log(missing / (1 - missing)))
    return Known(variant, patterns, units)


every_form = pytest.mark.parametrize("form", FORMS, ids=str)


@every_form
def test_the_numbers_of_a_mixture_come_back(form: Form) -> None:
    truth = known(form.signs, form.own_units)
    fitted = truth.fit(512)
    assert fitted.form == form
    for name, tolerance in (("gain", 0.03), ("bias", 0.1), ("std", 0.05), ("outlier_rate", 0.05)):
        assert truth.error(name, fitted) < tolerance
    rates = torch.sigmoid(fitted.variant.missingness.base)
    assert float((rates - 0.1).abs().max()) < 0.05
    assert not fitted.variant.missingness.is_evidence
    assert float(fitted.trust.median()) > 0.99


@every_form
def test_and_roughly_from_few_pairs(form: Form) -> None:
    truth = known(form.signs, form.own_units)
    fitted = truth.fit(64)
    assert fitted.form == form
    for name, tolerance in (("gain", 0.1), ("bias", 0.25), ("std", 0.16), ("outlier_rate", 0.1)):
        assert truth.error(name, fitted) < tolerance


@pytest.mark.parametrize("outliers", [0.02, 0.6])
def test_few_outliers_and_many_are_seen(outliers: float) -> None:
    truth = known(outliers=outliers)
    fitted = truth.fit(512)
    assert truth.error("outlier_rate", fitted) < 0.03
    assert truth.error("bias", fitted) < 0.08


@pytest.mark.parametrize("gain", [0.7, -1.0])
def test_a_gain_comes_back(gain: float) -> None:
    truth = known()
    truth.variant.gain.fill_(gain)
    assert truth.error("gain", truth.fit(512)) < 0.06
    assert truth.error("gain", truth.fit(64)) < 0.25


def test_gains_that_differ_come_back() -> None:
    truth = known()
    truth.variant.gain.copy_(torch.linspace(0.5, 1.5, DIMENSIONS))
    assert truth.error("gain", truth.fit(512)) < 0.06


def test_a_gain_of_one_stays_one() -> None:
    assert known().error("gain", known().fit(64)) < 0.05


def test_outlier_that_is_not_shifted_along_does_not_pull_the_bias() -> None:
    truth = known()
    truth.variant.center.zero_()
    assert truth.error("bias", truth.fit(512)) < 0.06


@pytest.mark.parametrize(("count", "tolerance"), [(512, 0.05), (64, 0.1)])
def test_the_papers_mixture_comes_back(count: int, tolerance: float) -> None:
    truth, patterns = ahop.MixedVariant(0.4, 0.2, 0.3), uniform(200, 20)
    pairs = truth.sample(patterns, count)
    found = fit_mixture(patterns[pairs.origins], pairs.queries).variant
    assert not found.signs
    assert_close(found.bias, truth.constant_bias(20), rtol=0, atol=tolerance)
    assert_close(found.std, torch.full((20,), 0.2), rtol=0, atol=tolerance)
    assert_close(found.outlier_rate, torch.full((20,), 0.4), rtol=0, atol=tolerance)


def test_signs_that_change_with_every_query_are_seen() -> None:
    truth, patterns = ahop.MixedVariant(0.4, 0.2, 0.5, signs="per_query"), uniform(200, 20)
    pairs = truth.sample(patterns, 512)
    found = fit_mixture(patterns[pairs.origins], pairs.queries).variant
    assert found.signs
    assert_close(found.bias.abs(), torch.full((20,), 0.5), rtol=0, atol=0.05)


def test_a_fitted_mixture_retrieves_as_well_as_the_truth() -> None:
    truth, patterns = ahop.MixedVariant(0.4, 0.2, 0.3), uniform(200, 20)
    pairs, test = truth.sample(patterns, 512), truth.sample(patterns, 1000, seed=1)
    found = ahop.likelihood.EvidenceSimilarity(fit_mixture(patterns[pairs.origins], pairs.queries).variant)
    ceiling = share_first(ahop.likelihood.LikelihoodSimilarity(truth), patterns, test)
    assert share_first(found, patterns, test) > ceiling - 0.03


@pytest.mark.parametrize("wild", [-9.0, 9999.0])
def test_a_sentinel_among_the_values_is_outlier_and_does_not_spoil_the_rest(wild: float) -> None:
    patterns = normal(60, 8)
    pairs = ahop.NoisyVariant(0.09).sample(patterns, 200)
    copies = torch.where(torch.rand(pairs.queries.shape) < 0.05, wild, pairs.queries)
    found = fit_mixture(patterns[pairs.origins], copies).variant
    assert_close(found.outlier_rate, torch.full((8,), 0.05), rtol=0, atol=0.04)
    assert_close(found.std, torch.full((8,), 0.3), rtol=0, atol=0.08)


def test_dimensions_may_have_units_of_any_size() -> None:
    units = torch.logspace(-4, 4, 8)
    patterns = normal(60, 8) * units
    pairs = ahop.NoisyVariant((0.3 * units).square()).sample(patterns, 200)
    found = fit_mixture(patterns[pairs.origins], pairs.queries).variant
    assert_close(found.std / units, torch.full((8,), 0.3), rtol=0, atol=0.08)


def test_pairs_beside_the_wrong_origin_are_not_trusted() -> None:
    truth = known()
    pairs = truth.variant.sample(truth.patterns, 256)
    wrong = torch.arange(256) % 10 == 0
    origins = torch.where(wrong, (pairs.origins + 7) % 200, pairs.origins)
    fitted = fit_mixture(truth.patterns[origins], pairs.queries)
    assert float((fitted.trust[wrong] < 0.5).double().mean()) > 0.5
    assert float((fitted.trust[~wrong] < 0.5).double().mean()) < 0.02
    assert truth.error("std", fitted) < 0.08


def test_pairs_without_weight_are_not_seen() -> None:
    truth = known()
    pairs = truth.variant.sample(truth.patterns, 300)
    weights = (torch.arange(300) % 3 > 0).float()
    spoiled = torch.where(weights[:, None] > 0, pairs.queries, 50.0)
    fitted = fit_mixture(truth.patterns[pairs.origins], spoiled, weights, Form())
    assert truth.error("bias", fitted) < 0.15
    assert truth.error("outlier_rate", fitted) < 0.1


# The density of outliers.


def drawn_density(values: Tensor, low: float = -1.0, high: float = 1.0) -> StepDensity:
    density = StepDensity()
    density.ends.copy_(torch.tensor([low, high]))
    density.fit(values, torch.ones_like(values))
    return density


def test_an_even_density_is_flat_and_one_with_edges_keeps_them() -> None:
    even = drawn_density(2 * torch.rand(4000) - 1)
    assert len(set(even.log_density.tolist())) <= 8
    assert_close(even.log_density.exp(), torch.full((256,), 0.5), rtol=0, atol=0.05)
    inside = drawn_density(torch.rand(4000) - 0.5)
    assert_close(inside.log_prob(torch.tensor([-0.4, 0.0, 0.4])).exp(), torch.ones(3), rtol=0, atol=0.1)
    assert float(inside.log_prob(torch.tensor([-0.6, 0.6])).exp().max()) < 0.05


@given(seed=seeds, count=st.integers(1, 200))
def test_a_density_has_mass_one_between_its_ends_and_samples_from_there(seed: int, count: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    density = drawn_density(0.3 * torch.randn(count, generator=generator), -2.0, 3.0)
    assert float(density.log_density.exp().mean() * 5) == pytest.approx(1)
    samples = density.sample((count, 2), generator)
    assert samples.shape == (count, 2)
    assert bool(((samples >= -2) & (samples <= 3)).all())


def test_beyond_its_ends_a_density_falls_by_a_factor_of_e_with_each_step() -> None:
    density = drawn_density(2 * torch.rand(4000) - 1)
    width = 2 / density.steps
    places = 1 + width * torch.tensor([0.0, 1.0, 2.0, 10.0])
    assert_close(density.log_prob(places) - density.log_prob(places)[0], -torch.tensor([0.0, 1.0, 2.0, 10.0]))
    assert_close(density.log_prob(-places), density.log_density[0] - torch.tensor([0.0, 1.0, 2.0, 10.0]))


def test_samples_of_a_density_have_it() -> None:
    density = drawn_density(0.3 * torch.randn(5000), -1.0, 1.0)
    samples = density.sample((20_000,), torch.Generator().manual_seed(0))
    counts = torch.histc(samples, 8, -1, 1) / 20_000
    assert_close(counts, density.log_density.exp().view(8, -1).mean(1) / 4, rtol=0, atol=0.015)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_density_without_width_is_still_a_number(dtype: torch.dtype) -> None:
    density = StepDensity()
    density.ends.fill_(3.0)
    assert bool(torch.isfinite(density.log_prob(torch.tensor([3.0], dtype=dtype))).all())


# Gaps.


def gapped(patterns: Tensor, count: int, rates: Callable[[Tensor], Tensor], seed: int = 0) -> ahop.Pairs:
    """Noisy copies whose entries go missing at rates that may depend on the stored value."""
    pairs = ahop.NoisyVariant(0.09).sample(patterns, count, seed)
    generator = torch.Generator().manual_seed(seed + 1000)
    missing = torch.rand(pairs.queries.shape, generator=generator) < rates(patterns[pairs.origins])
    return ahop.Pairs(pairs.origins, pairs.queries.masked_fill(missing, torch.nan))


def by_value(values: Tensor) -> Tensor:
    """What is small goes missing."""
    return torch.where(values < -0.3, 0.9, 0.1)


def by_dimension(values: Tensor) -> Tensor:
    return torch.linspace(0.05, 0.6, values.shape[1]).expand_as(values)


def missingness_of(patterns: Tensor, pairs: ahop.Pairs) -> Missingness:
    missingness = Missingness(patterns.shape[1])
    originals, copies = patterns[pairs.origins].double(), pairs.queries.double()
    Gaps(originals, copies, levels=missingness.levels).fit(missingness, torch.ones(len(pairs), dtype=torch.float64))
    return missingness


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("rates", [by_dimension, lambda values: torch.full_like(values, 0.4)])
def test_gaps_that_do_not_depend_on_the_value_say_exactly_nothing(seed: int, rates: Callable[[Tensor], Tensor]) -> None:
    patterns = normal(100, 10)
    pairs = gapped(patterns, 400, rates, seed)
    missingness = missingness_of(patterns, pairs)
    assert not missingness.is_evidence
    assert not bool(missingness.shifts.any())
    assert_close(torch.sigmoid(missingness.base), rates(patterns[:1])[0], rtol=0, atol=0.08)


@pytest.mark.parametrize("count", [64, 400])
def test_gaps_that_depend_on_the_value_are_evidence(count: int) -> None:
    patterns = normal(100, 10)
    missingness = missingness_of(patterns, gapped(patterns, count, by_value))
    assert missingness.is_evidence
    places = torch.tensor([-1.5, -0.8, 0.2, 0.8, 1.5])[:, None].expand(-1, 10)
    rates = missingness.rates(places).mean(1)
    assert_close(rates, by_value(places[:, :1]).squeeze(1), rtol=0, atol=0.2)


def test_values_where_the_pattern_has_none_are_evidence_too() -> None:
    """A hole in a pattern is a level of its own: here its copies are as a rule not observed either."""
    patterns = normal(100, 10)
    holes = torch.rand(100, 10, generator=torch.Generator().manual_seed(0)) < 0.3
    pairs = gapped(patterns, 400, lambda values: torch.full_like(values, 0.1))
    again = torch.rand(400, 10, generator=torch.Generator().manual_seed(1)) < 0.8
    copies = pairs.queries.masked_fill(holes[pairs.origins] & again, torch.nan)
    stored = patterns.masked_fill(holes, torch.nan)
    missingness = missingness_of(stored, ahop.Pairs(pairs.origins, copies))
    assert missingness.is_evidence
    assert float(missingness.shifts[-1]) > 1
    assert float(missingness.shifts[:-1].max()) < 0


@pytest.mark.parametrize("similarity", ["mixture", "additive"])
def test_listening_to_gaps_finds_more_than_ignoring_them(similarity: str) -> None:
    patterns = normal(300, 8)
    pairs, test = gapped(patterns, 400, by_value), gapped(patterns, 1000, by_value, seed=1)
    fitted = learn(patterns, pairs, similarity)
    assert corruption_of(fitted).missing_is_informative
    deaf = fitted.copy()
    for part in deaf.modules():
        if isinstance(part, Missingness):
            part.shifts.zero_()
    assert share_found(fitted, test) > share_found(deaf, test) + 0.03


# An additive table.


@pytest.mark.parametrize("rank", [1, 4])
def test_a_table_retrieves_nearly_as_well_as_the_likelihood(rank: int) -> None:
    truth, patterns = ahop.MixedVariant(0.4, 0.2, 0.3), uniform(200, 20)
    pairs, test = truth.sample(patterns, 512), truth.sample(patterns, 1000, seed=1)
    table = count_pairs(patterns[pairs.origins], pairs.queries).similarity(rank)
    assert table.rank == rank
    ceiling = share_first(ahop.likelihood.LikelihoodSimilarity(truth), patterns, test)
    assert share_first(table, patterns, test) > ceiling - 0.05
    assert ceiling - 0.05 > share_first(ahop.EuclideanSimilarity(), patterns, test)


def test_a_table_is_the_evidence_of_a_known_mixture() -> None:
    truth = known(missing=1e-4)
    truth.variant.bias.zero_()
    truth.variant.std.fill_(0.4)
    grid = torch.linspace(-1.5, 1.5, 7)[:, None].expand(-1, DIMENSIONS).contiguous()
    truth.variant.population.copy_(torch.quantile(truth.patterns, (torch.arange(33) + 0.5) / 33, dim=0).mT)
    pairs = truth.variant.sample(truth.patterns, 2000)
    table = count_pairs(truth.patterns[pairs.origins], pairs.queries).similarity(1)
    expected = truth.variant.evidence_per_dimension(grid, grid).mean(-1)
    found = table.per_dimension(grid, grid).mean(-1).detach()
    assert_close(found, expected, rtol=0, atol=0.5)
    assert float(torch.corrcoef(torch.stack([found.flatten(), expected.flatten()]))[0, 1]) > 0.97


def test_copies_that_have_nothing_to_do_with_their_origins_give_a_table_that_says_nothing() -> None:
    originals, copies = normal(400, 10), normal(400, 10, seed=1)
    table = count_pairs(originals, copies).similarity(1)
    assert float(table.per_dimension(originals[:20], copies[:20]).detach().abs().max()) < 0.3


def test_a_table_knows_a_form_that_no_mixture_has() -> None:
    """Each copy is the square of its origin."""
    patterns = normal(200, 12)
    pairs = ahop.NoisyVariant(0.04).sample(patterns.square(), 512)
    test = ahop.NoisyVariant(0.04).sample(patterns.square(), 500, seed=1)
    table = count_pairs(patterns[pairs.origins], pairs.queries).similarity(1)
    mixture = ahop.likelihood.EvidenceSimilarity(fit_mixture(patterns[pairs.origins], pairs.queries).variant)
    assert share_first(table, patterns, test) > 0.9
    assert share_first(table, patterns, test) > share_first(mixture, patterns, test) + 0.1


def test_further_tables_say_how_dimensions_differ() -> None:
    """Half of the dimensions are turned over."""
    patterns, turned = normal(200, 12), torch.ones(12).index_fill(0, torch.arange(6), -1.0)
    pairs = ahop.NoisyVariant(0.25).sample(patterns * turned, 512)
    test = ahop.NoisyVariant(0.25).sample(patterns * turned, 500, seed=1)
    shared, own = (count_pairs(patterns[pairs.origins], pairs.queries).similarity(rank) for rank in (1, 4))
    assert share_first(own, patterns, test) > share_first(shared, patterns, test) + 0.2
    assert share_first(own, patterns, test) > 0.9


def test_a_table_does_not_care_for_units() -> None:
    patterns, units = normal(100, 8), torch.logspace(-4, 4, 8)
    pairs, test = (ahop.NoisyVariant(0.25).sample(patterns, count, seed=count) for count in (300, 500))
    plain = share_first(count_pairs(patterns[pairs.origins], pairs.queries).similarity(1), patterns, test)
    scaled = count_pairs(patterns[pairs.origins] * units, pairs.queries * units).similarity(1)
    found = share_first(scaled, patterns * units, ahop.Pairs(test.origins, test.queries * units))
    assert found > plain - 0.05


def test_a_fitted_table_may_be_fitted_further_by_newton() -> None:
    """Its coefficients are those of all that it says, gaps as well: the solver ends no higher than it began."""
    patterns = normal(60, 6)
    pairs = gapped(patterns, 200, by_value)
    memory = ahop.AssociativeMemory(patterns, count_pairs(patterns[pairs.origins], pairs.queries).similarity(1))
    fitted = ahop.fit(memory, pairs=pairs, progress=False)
    report = fitted.report
    assert isinstance(report, ahop.report.SolverReport)
    assert report.loss < report.loss_before
    scores = fitted.scores(pairs.queries).detach()
    loss = float((scores.logsumexp(-1) - scores.gather(-1, pairs.origins[:, None]).squeeze(-1)).mean())
    assert report.loss == pytest.approx(loss, abs=1e-3)


# Corners.


@dataclass(frozen=True)
class Corner:
    patterns: Tensor
    origins: Tensor
    copies: Tensor

    @property
    def originals(self) -> Tensor:
        return self.patterns[self.origins]


def corner(count: int = 30, dimensions: int = 5, noise: float = 0.1) -> Corner:
    patterns = normal(20, dimensions)
    origins = torch.randint(20, (count,), generator=torch.Generator().manual_seed(1))
    return Corner(patterns, origins, patterns[origins] + noise * normal(count, dimensions, seed=2))


def _scaled(scale: float | Tensor) -> Corner:
    plain = corner()
    return Corner(plain.patterns * scale, plain.origins, plain.copies * scale)


def _constant(value: float, copied: float) -> Corner:
    plain = corner()
    return Corner(torch.full_like(plain.patterns, value), plain.origins, torch.full_like(plain.copies, copied))


def _with(
    patterns: Callable[[Tensor], Tensor] | None = None, copies: Callable[[Tensor], Tensor] | None = None
) -> Corner:
    plain = corner()
    stored = plain.patterns if patterns is None else patterns(plain.patterns.clone())
    return replace(plain, patterns=stored, copies=plain.copies if copies is None else copies(plain.copies.clone()))


def _column(values: Tensor, value: float) -> Tensor:
    values[:, 2] = value
    return values


NAN = float("nan")
CORNERS: dict[str, Callable[[], Corner]] = {
    "one pair": lambda: corner(1),
    "two pairs": lambda: corner(2),
    "three pairs": lambda: corner(3),
    "one dimension": lambda: corner(dimensions=1),
    "one pair, one dimension": lambda: corner(1, 1),
    "two pairs, one dimension": lambda: corner(2, 1),
    "exact copies": lambda: corner(noise=0.0),
    "one exact copy": lambda: corner(1, noise=0.0),
    "no copy observed": lambda: _with(copies=lambda copies: torch.full_like(copies, NAN)),
    "one copy observed": lambda: _with(
        copies=lambda copies: copies.index_fill(0, torch.arange(1, len(copies)), NAN)
    ),
    "no pattern observed": lambda: _with(lambda patterns: torch.full_like(patterns, NAN)),
    "nothing observed": lambda: _constant(NAN, NAN),
    "a dimension of the copies not observed": lambda: _with(copies=lambda copies: _column(copies, NAN)),
    "a dimension of the patterns not observed": lambda: _with(lambda patterns: _column(patterns, NAN)),
    "a dimension not observed": lambda: _with(*2 * (lambda values: _column(values, NAN),)),
    "a constant dimension": lambda: _with(*2 * (lambda values: _column(values, 3.0),)),
    "a dimension with a new constant": lambda: _with(
        lambda patterns: _column(patterns, 3.0), lambda copies: _column(copies, 7.0)
    ),
    "all the same": lambda: _constant(2.5, 2.5),
    "all the same, shifted": lambda: _constant(2.5, 4.0),
    "all the same, and large": lambda: _constant(1e10, 1e10),
    "all zero": lambda: _constant(0.0, 0.0),
    "one pattern many times": lambda: _with(lambda patterns: patterns[:1].expand(20, -1).clone()),
    "whole numbers": lambda: _with(*2 * (lambda values: values.round(),)),
    "zeros and ones": lambda: _with(*2 * (lambda values: (values > 0).float(),)),
    "huge values": lambda: _scaled(1e20),
    "huger values": lambda: _scaled(1e30),
    "tiny values": lambda: _scaled(1e-20),
    "units of all sizes": lambda: _scaled(torch.tensor([1e20, 1.0, 1e-10, 1e5, 1.0])),
    "a large offset": lambda: _with(*2 * (lambda values: values + 1e4,)),
    "a large offset in double precision": lambda: _with(*2 * (lambda values: values.double() + 1e8,)),
    "a wild value": lambda: _with(copies=lambda copies: torch.where(copies > 1.5, 1e20, copies)),
    "nothing in common": lambda: _with(copies=lambda copies: normal(len(copies), 5, seed=9)),
}  # fmt: skip
every_corner = pytest.mark.parametrize("name", CORNERS)


def assert_sound(similarity: Similarity, case: Corner) -> None:
    assert all(bool(torch.isfinite(value).all()) for value in similarity.state_dict().values())
    scores = similarity(case.patterns, case.copies)
    assert scores.shape == (len(case.copies), len(case.patterns))
    assert bool(torch.isfinite(scores).all())


def assert_mixture_sound(case: Corner, form: Form, weights: Tensor | None = None) -> None:
    fitted = fit_mixture(case.originals, case.copies, weights, form)
    assert_sound(ahop.likelihood.EvidenceSimilarity(fitted.variant), case)
    assert bool(torch.isfinite(fitted.trust).all())
    assert bool((fitted.variant.std > 0).all())


@every_corner
def test_a_mixture_of_every_form_is_sound_in_every_corner(name: str) -> None:
    for form in FORMS:
        assert_mixture_sound(CORNERS[name](), form)


@every_corner
def test_a_table_is_sound_in_every_corner(name: str) -> None:
    case = CORNERS[name]()
    assert_sound(count_pairs(case.originals, case.copies).similarity(3), case)


@pytest.mark.parametrize("name", ["three pairs", "one dimension", "exact copies", "no copy observed", "whole numbers"])
@pytest.mark.parametrize("weights", ["some", "none"])
def test_weights_may_be_zero_in_a_corner(name: str, weights: str) -> None:
    case = CORNERS[name]()
    given = (torch.arange(len(case.copies)) % 2).float() * (weights == "some")
    for form in FORMS:
        assert_mixture_sound(case, form, given)
    assert_sound(count_pairs(case.originals, case.copies, given).similarity(3), case)


@settings(max_examples=FEW)
@given(
    seed=seeds,
    count=st.integers(1, 11),
    dimensions=st.integers(1, 5),
    stored=st.integers(1, 7),
    form=st.sampled_from(FORMS),
)
def test_few_pairs_of_any_kind_give_a_sound_fit(
    seed: int, count: int, dimensions: int, stored: int, form: Form
) -> None:
    generator = torch.Generator().manual_seed(seed)

    def chance(*shape: int) -> Tensor:
        return torch.rand(shape, generator=generator)

    patterns = torch.randn(stored, dimensions, generator=generator)
    patterns = patterns.round() if chance() < 0.3 else patterns
    patterns = patterns * 10 ** (8 * chance(dimensions) - 4) if chance() < 0.3 else patterns
    origins = torch.randint(stored, (count,), generator=generator)
    copies = patterns[origins] * (1 + (chance() > 0.3) * 0.1 * torch.randn(count, dimensions, generator=generator))
    if chance() < 0.5:
        copies = copies.masked_fill(chance(count, dimensions) < 0.4, NAN)
        patterns = patterns.masked_fill(chance(stored, dimensions) < 0.2, NAN)
    weights = torch.ones(count) if chance() < 0.5 else chance(count).round(decimals=1)
    case = Corner(patterns, origins, copies)
    assert_mixture_sound(case, form, weights)
    assert_sound(count_pairs(case.originals, copies, weights).similarity(2), case)


def assert_answers(memory: ahop.AssociativeMemory, case: Corner) -> None:
    recall = memory.recall(case.copies, k=2)
    assert bool(torch.isfinite(recall.posterior).all())
    assert bool((recall.posterior.sum(-1) <= 1 + 1e-5).all())
    assert recall.unknown is None or bool(torch.isfinite(recall.unknown).all())
    learned = [
        value for key, value in memory.state_dict().items() if key not in ("patterns", "model.reference.queries")
    ]
    assert all(bool(torch.isfinite(value).all()) for value in learned)
    assert "nan" not in str(memory.report)


@pytest.mark.slow
@every_corner
def test_what_is_chosen_is_sound_in_every_corner(name: str) -> None:
    case = CORNERS[name]()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*too few to learn", category=UserWarning)
        fitted = ahop.fit(case.patterns, pairs=(case.origins, case.copies), progress=False)
    assert_answers(fitted, case)


# The choice.


@dataclass(frozen=True)
class World:
    """Patterns, their corruption, and a memory that has learned it from pairs."""

    patterns: Tensor
    variant: Variant
    memory: ahop.AssociativeMemory

    @property
    def test(self) -> ahop.Pairs:
        return self.variant.sample(self.patterns, 1000, seed=7)


def world(variant: Variant, pairs: int = 150) -> World:
    patterns = uniform(80, DIMENSIONS)
    return World(patterns, variant, ahop.fit(patterns, pairs=variant.sample(patterns, pairs), progress=False))


@pytest.fixture(scope="module")
def mixed() -> World:
    return world(ahop.MixedVariant(0.4, 0.2, 0.3))


@pytest.fixture(scope="module")
def noisy() -> World:
    return world(ahop.NoisyVariant(0.15))


def plain(world: World) -> ahop.AssociativeMemory:
    return ahop.AssociativeMemory(world.patterns, ahop.EuclideanSimilarity())


def test_a_mixed_corruption_is_met_with_what_can_describe_it(mixed: World) -> None:
    names = {member.name for member in report_of(mixed.memory).members}
    assert names & {"mixture", "additive", "additive_per_dimension"}
    found = share_found(mixed.memory, mixed.test)
    assert found > share_found(plain(mixed), mixed.test) + 0.2
    assert found > ahop.criteria.bayes_accuracy(mixed.patterns, mixed.variant) - 0.08


def test_plain_noise_is_met_with_the_distance_or_what_is_as_good(noisy: World) -> None:
    losses = {trial.name: trial.log_loss for trial in report_of(noisy.memory).trials}
    assert report_of(noisy.memory).loss <= losses["euclidean"] + 0.01
    assert share_found(noisy.memory, noisy.test) > share_found(plain(noisy), noisy.test) - 0.02


def test_the_best_on_held_out_pairs_is_chosen_or_one_as_good_and_all_are_listed(mixed: World) -> None:
    report = report_of(mixed.memory)
    losses = [trial.log_loss for trial in report.trials]
    assert {"mixture", "additive", "nuisance", "footprint"} <= {trial.name for trial in report.trials}
    assert {trial.name for trial in report.trials} <= set(SIMILARITIES) - {"auto"}
    assert losses == sorted(losses)
    assert report.chosen == " + ".join(member.name for member in report.members)
    assert report.loss < losses[0] + 0.1
    assert all(0 <= trial.accuracy <= 1 and trial.beta > 0 for trial in report.trials)


def test_held_out_numbers_hold_for_fresh_queries(mixed: World) -> None:
    report, test = report_of(mixed.memory), mixed.test
    assert share_found(mixed.memory, test) == pytest.approx(report.accuracy, abs=0.1)
    posterior = mixed.memory.weights(test.queries).gather(-1, test.origins[:, None])
    assert float(-posterior.detach().log().mean()) == pytest.approx(report.loss, abs=0.25)


def test_a_posterior_means_what_it_says(mixed: World) -> None:
    test = mixed.test
    recall = mixed.memory.recall(test.queries)
    right, said = (recall.indices[:, 0] == test.origins).double(), recall.posterior[:, 0].double()
    for low, high in ((0.0, 0.7), (0.7, 0.95), (0.95, 1.1)):
        here = (said >= low) & (said < high)
        if int(here.sum()) >= 30:
            assert float(said[here].mean()) == pytest.approx(float(right[here].mean()), abs=0.15)


def test_the_report_says_in_words_what_was_found(mixed: World) -> None:
    report, corruption = report_of(mixed.memory), corruption_of(mixed.memory)
    words = str(report)
    assert f"Model: {report.chosen}" in words
    assert f"(held-out log-loss {report.loss:.2f}" in words
    assert words.startswith(f"Top-1 accuracy on held-out pairs: {100 * (report.accuracy or 0):.0f} %.")
    assert "150 pairs" in words
    for trial in report.trials:
        assert trial.name == report.chosen or f"{trial.name} {trial.log_loss:.2f}" in words
    assert f"offset up to {corruption.largest_shift:.2g} ({corruption.shifted} of {DIMENSIONS} columns)" in words
    assert f"noise {corruption.noise:.2g}" in words
    assert f"{100 * corruption.outlier_rate:.0f} % outliers" in words
    assert "missing" not in words
    assert str(corruption) in words


def test_the_numbers_of_the_report_are_those_of_the_corruption(mixed: World, noisy: World) -> None:
    found = corruption_of(mixed.memory)
    assert found.largest_shift == pytest.approx(0.3, abs=0.1)
    assert found.shifts == pytest.approx(ahop.MixedVariant(0.4, 0.2, 0.3).constant_bias(DIMENSIONS).tolist(), abs=0.1)
    assert found.shifted >= DIMENSIONS - 1
    assert found.noise == pytest.approx(0.2, abs=0.05)
    assert found.gain == pytest.approx(1, abs=0.05)
    assert found.outlier_rate == pytest.approx(0.375, abs=0.06)  # six of sixteen
    assert found.missing_rate == 0
    assert not found.signs
    assert not found.missing_is_informative
    assert found.fits
    still = corruption_of(noisy.memory)
    assert still.shifted <= 2
    assert still.noise == pytest.approx(0.39, abs=0.05)
    assert still.outlier_rate < 0.05


def test_an_offset_is_told_where_the_values_lie() -> None:
    generator = torch.Generator().manual_seed(0)
    stored = -70 + 10 * torch.randn(60, DIMENSIONS, generator=generator)
    origins = torch.randint(60, (200,), generator=generator)
    copies = -76 + 0.8 * (stored[origins] + 70) + torch.randn(200, DIMENSIONS, generator=generator)
    found = ahop.fit(stored, pairs=(origins, copies), similarity="mixture", progress=False)
    corruption = corruption_of(found)
    assert corruption.gain == pytest.approx(0.8, abs=0.05)
    assert corruption.shifts == pytest.approx([-6] * DIMENSIONS, abs=1)


def test_columns_of_different_units_are_reported_by_their_names() -> None:
    patterns = normal(60, 6) * torch.tensor([1.0, 1000.0, 1.0, 1.0, 50.0, 1.0])
    origins = torch.arange(200) % 60
    noise = 0.1 * normal(200, 6, seed=1) * torch.tensor([1.0, 1000.0, 1.0, 1.0, 50.0, 1.0])
    copies = patterns[origins] + noise + torch.tensor([0.0, 300.0, 0.0, 0.0, 0.0, 0.0])
    frame = pd.DataFrame(patterns.numpy(), columns=["a", "b", "c", "d", "e", "f"])
    memory = ahop.fit(frame, pairs=(origins.tolist(), copies), similarity="mixture", progress=False)
    words = str(memory.report)
    assert re.search(r"offset up to (29|30)\d \(b; \d of 6 columns\)", words), words
    assert re.search(r"noise 0\.\d+ \([acdf]\) to \d+ \(b\)", words), words
    nameless = ahop.fit(patterns, pairs=(origins, copies), similarity="mixture", progress=False)
    assert "(dimension 1; " in str(nameless.report)


def test_columns_that_never_change_have_no_outliers() -> None:
    still = ahop.fit(torch.ones(30, 8), queries=torch.ones(30, 8), similarity="mixture", progress=False)
    assert "0 % outliers" in str(still.report)
    assert corruption_of(still).outlier_rate == 0


def test_gaps_are_reported_with_what_they_say() -> None:
    patterns = normal(80, 8)
    deaf = learn(patterns, gapped(patterns, 200, lambda values: torch.full_like(values, 0.3)))
    assert corruption_of(deaf).missing_rate == pytest.approx(0.3, abs=0.05)
    assert f"{100 * corruption_of(deaf).missing_rate:.0f} % missing at random" in str(deaf.report)
    assert "missing and more often for some patterns" in str(learn(patterns, gapped(patterns, 200, by_value)).report)


def test_wrong_pairs_are_reported_and_hardly_count() -> None:
    patterns, variant = normal(80, 8), ahop.NoisyVariant(0.04)
    pairs = variant.sample(patterns, 200)
    origins = torch.where(torch.arange(200) % 20 == 0, (pairs.origins + 1) % 80, pairs.origins)
    fitted = learn(patterns, ahop.Pairs(origins, pairs.queries))
    assert corruption_of(fitted).wrong_pairs == pytest.approx(10, abs=3)
    assert f"{corruption_of(fitted).wrong_pairs} pairs look mislabeled" in str(fitted.report)
    assert share_found(fitted, variant.sample(patterns, 300, seed=5)) > 0.95


@pytest.mark.parametrize("name", BY_NAME)
def test_every_similarity_can_be_learned_by_name(name: str) -> None:
    patterns, variant = uniform(40, 8), ahop.MixedVariant(0.25, 0.1, 0.2)
    fitted = learn(patterns, variant.sample(patterns, 120), name)
    assert report_of(fitted).chosen == name
    assert [trial.name for trial in report_of(fitted).trials] == [name]
    least = 0.2 if name == "agreement" else 0.4  # agreement knows of no offset
    assert share_found(fitted, variant.sample(patterns, 300, seed=1)) > least
    if name in LEARNED:
        assert not isinstance(fitted.similarity, ahop.EuclideanSimilarity | ahop.DotSimilarity)


@pytest.mark.parametrize("name", OF_OTHER_COLUMNS)
def test_a_similarity_of_other_columns_is_refused_where_there_are_none(name: str) -> None:
    patterns = uniform(40, 8)
    with pytest.raises(InvalidValueError, match="needs columns of"):
        learn(patterns, ahop.MixedVariant(0.25, 0.1, 0.2).sample(patterns, 120), name)


def test_the_mixture_by_name_holds_the_numbers() -> None:
    patterns, variant = uniform(80, 10), ahop.MixedVariant(0.3, 0.1, 0.2)
    found = mixture_of(learn(patterns, variant.sample(patterns, 200)))
    assert_close(found.bias, variant.constant_bias(10), rtol=0, atol=0.06)
    assert_close(found.outlier_rate, torch.full((10,), 0.3), rtol=0, atol=0.06)


def test_pairs_may_be_drawn_from_a_variant() -> None:
    patterns, variant = uniform(40, 8), ahop.NoisyVariant(0.04)
    fitted = ahop.fit(patterns, variant=variant, similarity="mixture", samples=100, progress=False)
    assert report_of(fitted).pairs == 100
    assert share_found(fitted, variant.sample(patterns, 200, seed=1)) > 0.9


def test_a_name_that_is_not_known_is_refused_with_those_that_are(unchecked: None) -> None:
    pairs = ahop.NoisyVariant(0.1).sample(uniform(20, 4), 20)
    with pytest.raises(InvalidValueError, match=r"`similarity` must be one of 'auto'.*'mixture'.*got 'mixtur'"):
        learn(uniform(20, 4), pairs, "mixtur")


def test_a_name_brings_its_own_fit() -> None:
    pairs = ahop.NoisyVariant(0.1).sample(uniform(20, 4), 20)
    with pytest.raises(InvalidTypeError, match="bring their own fit; leave `solver` out"):
        ahop.fit(uniform(20, 4), pairs=pairs, similarity="mixture", solver="adam", progress=False)


@pytest.mark.parametrize("name", ["auto", "mixture", "additive", "footprint"])
@pytest.mark.parametrize("count", [0, 1, 3])
def test_too_few_pairs_are_said_to_be_and_answered_all_the_same(name: str, count: int) -> None:
    patterns = uniform(20, 4)
    copies = patterns[:count] + 0.01
    with pytest.warns(UserWarning, match=rf"{count} pairs of {count} different origins are too few"):
        fitted = ahop.fit(patterns, pairs=(torch.arange(count), copies), similarity=name, progress=False)
    assert fitted.report is not None
    assert report_of(fitted).corruption is None
    recall = fitted.recall(patterns)
    assert torch.equal(recall.indices[:, 0], torch.arange(20))
    assert recall.unknown is None
    assert str(fitted.report)


def test_many_copies_of_one_origin_are_too_few_origins() -> None:
    patterns = uniform(20, 4)
    copies = patterns[:1] + 0.01 * normal(50, 4)
    with pytest.warns(UserWarning, match="50 pairs of 1 different origins are too few"):
        fitted = ahop.fit(patterns, pairs=(torch.zeros(50).long(), copies), progress=False)
    assert torch.equal(fitted.recall(patterns).indices[:, 0], torch.arange(20))


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_arrays_answer_arrays(mixed: World, kind: type[np.floating[np.typing.NBitBase]]) -> None:
    patterns = mixed.patterns[:, :8].numpy().astype(kind)
    pairs = ahop.NoisyVariant(0.04).sample(torch.from_numpy(patterns), 100)
    origins, copies = pairs.origins.numpy(), pairs.queries.numpy()
    fitted = ahop.fit(patterns, pairs=(origins, copies), similarity="mixture", progress=False)
    recall = fitted.recall(copies, k=3)
    assert isinstance(recall.unknown, np.ndarray)
    assert recall.unknown.shape == (100,)
    assert recall.unknown.dtype == kind
    assert recall.posterior.dtype == kind
    assert bool(((recall.unknown >= 0) & (recall.unknown <= 1)).all())
    for values in (recall.indices, recall.posterior, recall.patterns):
        assert isinstance(values, np.ndarray)
    again = fitted.recall(torch.from_numpy(copies), k=3)
    assert isinstance(again.unknown, Tensor)
    assert_close(again.unknown, torch.from_numpy(recall.unknown))


def test_queries_of_no_stored_pattern_are_told_from_the_others(mixed: World) -> None:
    strangers = mixed.variant.sample(uniform(80, DIMENSIONS, seed=9), 500, seed=3)
    known, unknown = (mixed.memory.recall(each.queries).unknown for each in (mixed.test, strangers))
    assert known is not None
    assert unknown is not None
    assert float((unknown[:, None] > known).double().mean()) > 0.9


def test_the_same_seed_gives_the_same_memory_to_the_last_bit(mixed: World) -> None:
    again = ahop.fit(mixed.patterns, pairs=mixed.variant.sample(mixed.patterns, 150), progress=False)
    left, right = mixed.memory.state_dict(), again.state_dict()
    assert list(left) == list(right)
    assert all(torch.equal(left[name], right[name]) for name in left)
    assert report_of(again).trials == report_of(mixed.memory).trials


@pytest.mark.parametrize("name", ["mixture", "additive", "footprint"])
def test_the_memory_given_is_left_as_it_was(name: str) -> None:
    memory = ahop.AssociativeMemory(uniform(40, 6), ahop.EuclideanSimilarity(), ahop.Softmax(3.0))
    before = {key: value.clone() for key, value in memory.state_dict().items()}
    words, state = repr(memory), torch.get_rng_state()
    pairs = ahop.NoisyVariant(0.1).sample(memory.patterns, 100)
    copies = pairs.queries.clone()
    fitted = ahop.fit(memory, pairs=pairs, similarity=name, progress=False)
    assert repr(memory) == words
    assert memory.report is None
    assert memory.detector is None
    assert all(torch.equal(value, before[key]) for key, value in memory.state_dict().items())
    assert torch.equal(pairs.queries, copies)
    assert torch.equal(torch.get_rng_state(), state)
    assert fitted.patterns is memory.patterns


@given(seed=seeds, origins=st.lists(st.integers(0, 9), min_size=1, max_size=60))
def test_copies_of_one_origin_are_held_out_together(seed: int, origins: list[int]) -> None:
    count = len(origins)
    training = TrainingSet(torch.zeros(10, 1), torch.tensor(origins), torch.zeros(count, 1), torch.ones(count))
    folds = folds_of(training, seed)
    if len(set(origins)) < 4:
        assert folds is None
        return
    assert folds is not None
    assert folds.shape == (len(origins),)
    assert len({(origin, int(fold)) for origin, fold in zip(origins, folds, strict=True)}) == len(set(origins))
    assert set(folds.tolist()) == set(range(min(5, len(set(origins)))))


def test_copies_that_are_held_out_are_not_learned_by_heart() -> None:
    """Each origin has copies of its own kind; only who had seen them would find a form in them."""
    patterns = normal(40, 10)
    origins = torch.arange(200) % 40
    copies = normal(40, 10, seed=3)[origins] + 0.01 * normal(200, 10, seed=4)
    report = report_of(ahop.fit(patterns, pairs=(origins, copies), similarity="additive", progress=False))
    assert report.trials[0].accuracy < 0.2


@pytest.mark.parametrize("name", [*(name for name in LEARNED if name not in OF_STRENGTHS), "euclidean", "auto"])
def test_patterns_and_copies_may_have_gaps(name: str) -> None:
    patterns = normal(60, 10)
    pairs = ahop.NoisyVariant(0.04).sample(patterns, 150)
    generator = torch.Generator().manual_seed(0)
    stored = patterns.masked_fill(torch.rand(60, 10, generator=generator) < 0.1, NAN)
    copies = pairs.queries.masked_fill(torch.rand(150, 10, generator=generator) < 0.2, NAN)
    fitted = learn(stored, ahop.Pairs(pairs.origins, copies), name)
    assert_answers(fitted, Corner(stored, pairs.origins, copies))
    assert share_found(fitted, ahop.Pairs(pairs.origins, copies)) > 0.85


def test_a_pattern_that_was_never_observed_does_not_blunt_the_answers() -> None:
    patterns = normal(60, 10)
    pairs = ahop.NoisyVariant(0.04).sample(patterns[1:], 150)
    stored = patterns.index_fill(0, torch.tensor([0]), NAN)
    fitted = learn(stored, ahop.Pairs(pairs.origins + 1, pairs.queries), "euclidean")
    recall = fitted.recall(pairs.queries)
    assert torch.equal(recall.indices[:, 0], pairs.origins + 1)
    assert float(recall.posterior.mean()) > 0.9


@pytest.mark.parametrize("name", ["auto", "mixture", "additive", "footprint"])
def test_one_dimension_is_enough(name: str) -> None:
    patterns, variant = torch.arange(12.0)[:, None], ahop.NoisyVariant(0.04)
    fitted = learn(patterns, variant.sample(patterns, 100), name)
    assert share_found(fitted, variant.sample(patterns, 200, seed=1)) > 0.95


def test_two_patterns_are_too_few_to_learn_from_and_four_are_not() -> None:
    variant = ahop.NoisyVariant(0.04)
    with pytest.warns(UserWarning, match="100 pairs of 2 different origins"):
        fitted = ahop.fit(normal(2, 5), pairs=variant.sample(normal(2, 5), 100), progress=False)
    assert share_found(fitted, variant.sample(normal(2, 5), 100, seed=1)) == 1
    fitted = learn(normal(4, 5), variant.sample(normal(4, 5), 100))
    assert share_found(fitted, variant.sample(normal(4, 5), 100, seed=1)) > 0.95
    assert fitted.detector is not None


@pytest.mark.parametrize("name", ["mixture", "additive"])
@pytest.mark.parametrize("offset", [0.0, 1e8])
def test_double_precision_is_kept(name: str, offset: float) -> None:
    patterns, variant = normal(60, 10).double() + offset, ahop.NoisyVariant(0.04)
    fitted = learn(patterns, variant.sample(patterns, 150), name)
    assert share_found(fitted, variant.sample(patterns, 300, seed=1)) > 0.97


@pytest.mark.slow
@pytest.mark.parametrize("scale", [1e-20, 1e20])
def test_the_unit_of_the_patterns_does_not_matter(scale: float) -> None:
    patterns, variant = uniform(60, 10), ahop.MixedVariant(0.2, 0.1, 0.2)
    pairs, test = variant.sample(patterns, 150), variant.sample(patterns, 300, seed=1)
    scaled = ahop.fit(scale * patterns, pairs=(pairs.origins, scale * pairs.queries), progress=False)
    assert share_found(scaled, ahop.Pairs(test.origins, scale * test.queries)) > 0.9


def test_a_prior_is_kept() -> None:
    patterns, variant = uniform(40, 6), ahop.NoisyVariant(0.25)
    log_prior = torch.zeros(40).index_fill(0, torch.arange(1, 40), -torch.inf)
    memory = ahop.AssociativeMemory(patterns, log_prior=log_prior)
    fitted = ahop.fit(memory, pairs=variant.sample(patterns, 100), similarity="mixture", progress=False)
    assert not bool(fitted.recall(patterns).indices.any())


def test_a_memory_that_has_learned_comes_back_from_its_file(mixed: World, tmp_path: Path) -> None:
    mixed.memory.save(tmp_path / "memory.ahop")
    loaded = ahop.load(tmp_path / "memory.ahop")
    assert loaded.report == mixed.memory.report
    assert "Model: " in str(loaded.report)
    queries = mixed.test.queries
    before, after = mixed.memory.recall(queries, k=3), loaded.recall(queries, k=3)
    assert torch.equal(before.indices, after.indices)
    assert torch.equal(before.posterior, after.posterior)
    assert before.unknown is not None
    assert after.unknown is not None
    assert torch.equal(before.unknown, after.unknown)


def test_a_memory_that_has_learned_may_grow_and_shrink(mixed: World) -> None:
    memory = mixed.memory.copy()
    rows = memory.add(uniform(20, DIMENSIONS, seed=5))
    test = mixed.variant.sample(memory.patterns, 500, seed=3)
    assert share_found(memory, test) > 0.75
    memory.remove(rows)
    assert_close(memory.recall(mixed.test.queries).posterior, mixed.memory.recall(mixed.test.queries).posterior)


def test_what_was_learned_may_be_learned_again(mixed: World) -> None:
    variant = ahop.MixedVariant(0.1, 0.1, 0.3, seed=3)
    pairs = variant.sample(mixed.patterns, 150)
    again = ahop.fit(mixed.memory, pairs=pairs, similarity="mixture", progress=False)
    assert_close(mixture_of(again).bias, variant.constant_bias(DIMENSIONS), rtol=0, atol=0.08)


def test_a_bar_is_shown_when_wanted(capsys: pytest.CaptureFixture[str]) -> None:
    pairs = ahop.NoisyVariant(0.1).sample(uniform(20, 4), 40)
    ahop.fit(uniform(20, 4), pairs=pairs, similarity="mixture")
    assert "what happens to copies" in capsys.readouterr().err
    learn(uniform(20, 4), pairs)
    assert not capsys.readouterr().err


# Groups.


@dataclass(frozen=True)
class Devices:
    """Copies of two devices, each with a bias of its own."""

    patterns: Tensor
    biases: Tensor

    def sample(self, count: int, seed: int = 0) -> tuple[ahop.Pairs, list[str]]:
        pairs = ahop.NoisyVariant(0.25).sample(self.patterns, count, seed)
        device = torch.arange(count) % len(self.biases)
        names = [f"device {number}" for number in device.tolist()]
        return ahop.Pairs(pairs.origins, pairs.queries + self.biases[device]), names


def opposite() -> Devices:
    return Devices(normal(80, 12), torch.tensor([0.8, -0.8])[:, None].expand(-1, 12))


def alike(count: int = 2) -> Devices:
    return Devices(normal(80, 12), torch.full((count, 12), 0.5))


def learned_groups(devices: Devices, count: int = 200, name: str = "additive") -> ahop.AssociativeMemory:
    pairs, names = devices.sample(count)
    return ahop.fit(devices.patterns, pairs=pairs, groups=names, similarity=name, progress=False)


@pytest.fixture(scope="module")
def grouped() -> ahop.AssociativeMemory:
    return learned_groups(opposite())


@pytest.mark.parametrize("name", ["additive", "mixture", "debiased"])
def test_devices_with_opposite_bias_are_told_apart(name: str) -> None:
    fitted = learned_groups(opposite(), name=name)
    test, names = opposite().sample(500, seed=1)
    assert fitted.model.group_names == ["device 0", "device 1"]
    assert report_of(fitted).groups == 2
    assert "2 groups have their own corruption" in str(fitted.report)
    assert share_found(fitted, test, names) > share_found(fitted, test) + 0.05
    assert share_found(fitted, test, names) > 0.95


def test_a_device_that_is_not_known_is_answered_by_what_all_have_in_common(grouped: ahop.AssociativeMemory) -> None:
    test, _ = opposite().sample(50, seed=1)
    shared, unknown = grouped.recall(test.queries), grouped.recall(test.queries, groups=["a new one"] * 50)
    assert_close(unknown.posterior, shared.posterior)
    assert torch.equal(unknown.indices, shared.indices)
    assert grouped.for_group("a new one") is grouped


def test_each_query_is_answered_by_its_own_device(grouped: ahop.AssociativeMemory) -> None:
    test, names = opposite().sample(40, seed=1)
    mixed = [name if row % 3 else "a new one" for row, name in enumerate(names)]
    together = grouped.recall(test.queries, k=2, groups=mixed)
    assert together.unknown is not None
    for row, name in enumerate(mixed):
        alone = grouped.recall(test.queries[row : row + 1], k=2, groups=[name])
        assert alone.unknown is not None
        assert_close(together.posterior[row], alone.posterior[0])
        assert torch.equal(together.indices[row], alone.indices[0])
        assert_close(together.unknown[row], alone.unknown[0])
    seen = grouped.for_group(names[0]).recall(test.queries[:1], k=2)
    assert_close(grouped.recall(test.queries[:1], k=2, groups=names[:1]).posterior, seen.posterior)


def test_devices_come_back_from_a_file(grouped: ahop.AssociativeMemory, tmp_path: Path) -> None:
    grouped.save(tmp_path / "memory.ahop")
    loaded = ahop.load(tmp_path / "memory.ahop")
    test, names = opposite().sample(100, seed=1)
    assert loaded.model.group_names == grouped.model.group_names
    assert torch.equal(
        loaded.recall(test.queries, groups=names).posterior, grouped.recall(test.queries, groups=names).posterior
    )


def test_devices_that_are_alike_do_no_harm() -> None:
    fitted = learned_groups(alike(), name="mixture")
    test, names = alike().sample(500, seed=1)
    assert share_found(fitted, test, names) > share_found(fitted, test) - 0.02


def test_many_devices_with_few_copies_each_do_no_harm() -> None:
    fitted = learned_groups(alike(8), 48, "mixture")
    test, names = alike(8).sample(500, seed=1)
    assert share_found(fitted, test, names) > share_found(fitted, test) - 0.04


def test_groups_are_judged_whatever_rows_the_origins_have() -> None:
    """Every origin has an even row: a choice that splits by row has nothing to judge by, and takes any."""
    pairs, names = alike().sample(60)
    patterns = alike().patterns.repeat_interleave(2, 0)
    numbers = numbered(names)[1]
    copies = pairs.queries + numbers.unsqueeze(-1)
    training = TrainingSet(patterns, 2 * pairs.origins, copies, torch.ones(60), numbers)
    seen: list[int] = []

    def learn(part: TrainingSet) -> Similarity:
        seen.append(len(part))
        return ahop.EuclideanSimilarity()

    assert alignment_helps(training, Candidate("a probe", learn))
    assert min(seen) < 60


def test_names_of_groups_may_be_numbers_and_arrays(grouped: ahop.AssociativeMemory, unchecked: None) -> None:
    pairs, names = opposite().sample(200)
    numbers: Any = np.array([int(name[-1]) for name in names])
    fitted = ahop.fit(opposite().patterns, pairs=pairs, groups=numbers, similarity="additive", progress=False)
    assert fitted.model.group_names == ["0", "1"]
    assert_close(
        fitted.recall(pairs.queries, groups=numbers).posterior,
        grouped.recall(pairs.queries, groups=names).posterior,
    )


def test_one_group_is_none() -> None:
    pairs, _ = alike(1).sample(60)
    fitted = ahop.fit(alike(1).patterns, pairs=pairs, groups=["a"] * 60, similarity="mixture", progress=False)
    assert not fitted.model.group_names
    assert report_of(fitted).groups == 0


def test_what_was_learned_of_groups_is_forgotten_by_the_next_fit(
    grouped: ahop.AssociativeMemory, tmp_path: Path
) -> None:
    swapped = Devices(opposite().patterns, -opposite().biases)
    pairs, names = swapped.sample(200)
    again = ahop.fit(grouped, pairs=pairs, groups=names, similarity="additive", progress=False)
    assert len(again.model.groups) == 2
    test, names = swapped.sample(300, seed=1)
    assert share_found(again, test, names) > 0.95
    alone = ahop.fit(grouped, pairs=pairs, similarity="additive", progress=False)
    assert not alone.model.groups
    alone.save(tmp_path / "memory.ahop")
    assert ahop.load(tmp_path / "memory.ahop").model.groups == {}
    solved = ahop.fit(alone, pairs=pairs, solver="adam", progress=False)
    assert solved.detector is None
    assert solved.recall(test.queries[:2]).unknown is None


@pytest.mark.parametrize("groups", [["a"] * 59, [], "a", ["a"] * 61])
def test_groups_of_another_length_are_refused(groups: list[str]) -> None:
    pairs, _ = alike().sample(60)
    with pytest.raises(ShapeError, match="`groups` must be 60 names, one for each query"):
        ahop.fit(alike().patterns, pairs=pairs, groups=groups, similarity="mixture", progress=False)


def test_groups_of_another_length_are_refused_of_few_pairs_too() -> None:
    pairs = ahop.Pairs(torch.arange(2), alike().patterns[:2])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(ShapeError, match="`groups` must be 2 names"):
            ahop.fit(alike().patterns, pairs=pairs, groups=["a"], progress=False)


def test_groups_of_queries_of_another_length_are_refused(grouped: ahop.AssociativeMemory) -> None:
    with pytest.raises(ShapeError, match="`groups` must be 3 names, one for each query; got 2"):
        grouped.recall(torch.zeros(3, 12), groups=["device 0", "device 1"])


def test_groups_need_a_name_to_be_learned_by() -> None:
    pairs, names = alike().sample(60)
    with pytest.raises(InvalidTypeError, match="`groups` need a similarity that is learned by name"):
        ahop.fit(ahop.AssociativeMemory(alike().patterns), pairs=pairs, groups=names, progress=False)
