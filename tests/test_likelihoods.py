"""The compiled scores of mixtures and tables are their formulas, faster."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.testing import assert_close

import ahop
from ahop._core.kernels import native as finding
from ahop._core.kernels.likelihoods import serves_mixture
from ahop._core.kernels.native import native
from ahop._core.kernels.packing import packed
from ahop._core.prepared import prepared
from tests.strategies import seeds

INSTRUCTION_SETS = native.instruction_sets() if native is not None else []
both_dtypes = pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)


def learned(dimensions: int, signs: bool, generator: torch.Generator) -> ahop.variants.MixtureVariant:
    variant = ahop.variants.MixtureVariant(dimensions, signs=signs)
    for name, low, high in (("gain", 0.5, 1.5), ("bias", -1.0, 1.0), ("std", 0.05, 1.0), ("outlier_rate", 0.0, 0.9)):
        numbers = low + (high - low) * torch.rand(dimensions, generator=generator)
        getattr(variant, name).copy_(numbers)
    variant.population.copy_(torch.randn(variant.population.shape, generator=generator).sort(-1).values)
    return variant


def numbers(count: int, dimensions: int, gaps: float, dtype: torch.dtype, generator: torch.Generator) -> Tensor:
    values = torch.randn(count, dimensions, generator=generator, dtype=torch.float64).to(dtype)
    return values.masked_fill(torch.rand(values.shape, generator=generator) < gaps, torch.nan)


@pytest.mark.parametrize("instruction_set", INSTRUCTION_SETS)
@both_dtypes
@given(
    dimensions=st.sampled_from([1, 3, 64, 65, 130, 600]),
    count=st.integers(1, 70),
    batch=st.integers(0, 3),
    signs=st.booleans(),
    gaps=st.sampled_from([0.0, 0.3]),
    seed=seeds,
)
def test_scores_are_the_sum_of_the_evidence(
    instruction_set: str,
    dtype: torch.dtype,
    dimensions: int,
    count: int,
    batch: int,
    signs: bool,
    gaps: float,
    seed: int,
) -> None:
    generator = torch.Generator().manual_seed(seed)
    variant = learned(dimensions, signs, generator)
    patterns, queries = (numbers(size, dimensions, gaps, dtype, generator) for size in (count, batch))
    expected = variant.evidence_per_dimension(patterns.double(), queries.double())
    assert native is not None
    native.use(instruction_set)
    try:
        for owned in (False, True):  # read in place, then packed
            holder = prepared(patterns) if owned else None
            assert (packed(patterns) is not None) == (holder is not None)
            found = variant.evidence(patterns, queries)
            # Digits are lost where large addends of both signs meet, and in the squares of far places.
            size = float(expected.abs().sum(-1).max()) if expected.numel() else 1.0
            # And torch's softplus, which the sum is made of, is the identity from 20 on: 2e-9 a dimension.
            tolerance = 2e-9 * dimensions + (1e-5 if dtype == torch.float32 else 1e-13) * max(10.0, size)
            assert_close(found.double(), expected.sum(-1), rtol=0, atol=tolerance)
    finally:
        native.use(INSTRUCTION_SETS[0])


@pytest.mark.parametrize("instruction_set", INSTRUCTION_SETS)
@both_dtypes
@given(
    dimensions=st.sampled_from([1, 3, 64, 130]),
    count=st.integers(1, 70),
    batch=st.integers(0, 3),
    knots=st.sampled_from([2, 5, 16, 20]),
    gaps=st.sampled_from([0.0, 0.3]),
    seed=seeds,
)
def test_tables_are_looked_up_as_the_formula_says(
    instruction_set: str,
    dtype: torch.dtype,
    dimensions: int,
    count: int,
    batch: int,
    knots: int,
    gaps: float,
    seed: int,
) -> None:
    generator = torch.Generator().manual_seed(seed)
    similarity = ahop.similarities.AdditiveSimilarity(dimensions, pattern_knots=knots, rank=2).requires_grad_(False)
    similarity.tables.copy_(torch.randn(similarity.tables.shape, generator=generator))
    similarity.mixing.copy_(torch.randn(similarity.mixing.shape, generator=generator))
    # Some knots fall on one place, and some values on knots and beyond the last.
    similarity.pattern_places.copy_(similarity.pattern_places.mul(2).round().div(2))
    patterns, queries = (numbers(size, dimensions, gaps, dtype, generator) for size in (count, batch))
    patterns = patterns.mul(4).round().div(4).where(torch.rand(patterns.shape, generator=generator) < 0.3, patterns)
    expected = similarity.per_dimension(patterns.double(), queries.double())
    assert native is not None
    native.use(instruction_set)
    try:
        for owned in (False, True):  # read in place, then packed
            holder = prepared(patterns) if owned else None
            assert (packed(patterns) is not None) == (holder is not None)
            found = similarity(patterns, queries)
            size = float(expected.abs().sum(-1).max()) if expected.numel() else 1.0
            tolerance = (1e-5 if dtype == torch.float32 else 1e-13) * max(10.0, size)
            assert_close(found.double(), expected.sum(-1), rtol=0, atol=tolerance)
    finally:
        native.use(INSTRUCTION_SETS[0])


@pytest.mark.parametrize("instruction_set", INSTRUCTION_SETS)
@both_dtypes
@given(
    dimensions=st.sampled_from([1, 3, 64, 600]),
    batch=st.integers(0, 3),
    signs=st.booleans(),
    size=st.sampled_from([1e-20, 1.0, 1e3, 1e15]),
    gaps=st.sampled_from([0.0, 0.3, 1.0]),
    seed=seeds,
)
def test_values_say_by_themselves_what_the_formula_says(
    instruction_set: str,
    dtype: torch.dtype,
    dimensions: int,
    batch: int,
    signs: bool,
    size: float,
    gaps: float,
    seed: int,
) -> None:
    generator = torch.Generator().manual_seed(seed)
    variant = learned(dimensions, signs, generator).to(dtype)
    variant.scale.mul_(0.1 + torch.rand(dimensions, generator=generator))
    variant.outliers.log_density.copy_(torch.randn(256, generator=generator).log_softmax(0))
    variant.outlier_rate[0] = 1e-12
    queries = size * numbers(batch, dimensions, gaps, dtype, generator)
    with torch.enable_grad():  # where gradients flow, torch works the formula out
        leaf = queries.clone().requires_grad_()
        expected = torch.stack(variant._log_outliers_and_marginal(leaf)).detach()
    assert native is not None
    native.use(instruction_set)
    try:
        found = torch.stack(variant._log_outliers_and_marginal(queries))
    finally:
        native.use(INSTRUCTION_SETS[0])
    seen = ~queries.isnan()
    tolerance = 5e-6 if dtype == torch.float32 else 1e-13
    assert_close(found[:, seen], expected[:, seen], rtol=tolerance, atol=tolerance)
    assert not bool(found[:, ~seen].any())


def test_a_value_beyond_all_squares_is_an_outlier() -> None:
    variant = ahop.variants.MixtureVariant(2)
    outliers, marginal = variant._log_outliers_and_marginal(torch.full((1, 2), 1e30))
    assert_close(outliers, marginal)
    assert bool(outliers.isfinite().all())


@both_dtypes
def test_a_memory_answers_the_same_without_kernels(dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    generator = torch.Generator().manual_seed(0)
    patterns = numbers(50, 8, 0.1, dtype, generator)
    memory = ahop.AssociativeMemory(patterns, ahop.likelihood.LikelihoodSimilarity(learned(8, True, generator)))
    queries = numbers(6, 8, 0.2, dtype, generator)
    with_kernels = memory.scores(queries)
    memory.remove(torch.arange(7))
    monkeypatch.setattr(finding, "native", None)
    assert_close(with_kernels[:, 7:], memory.scores(queries), rtol=1e-5, atol=1e-4)


def test_what_is_worth_more_than_an_exponent_can_say_goes_the_long_way() -> None:
    worth = torch.tensor([[1.0, 200.0]])
    assert not serves_mixture(torch.zeros(1, 2), worth)
    variant = ahop.variants.MixtureVariant(2)
    variant.std.fill_(1e-37)
    variant.outlier_rate.fill_(1e-30)
    scores = variant.evidence(torch.zeros(2, 2), torch.zeros(1, 2))
    assert bool(scores.isfinite().all())


@both_dtypes
@pytest.mark.parametrize("signs", [False, True])
@pytest.mark.parametrize("has_kernels", [False, True])
def test_few_dimensions_that_are_worth_too_much_leave_the_others_as_they_are(
    dtype: torch.dtype, signs: bool, has_kernels: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    generator = torch.Generator().manual_seed(0)
    variant = learned(9, signs, generator)
    variant.std[[2, 5]] = 1e-6
    variant.outlier_rate[[2, 5]] = 1e-30
    patterns, queries = (numbers(size, 9, 0.1, dtype, generator) for size in (40, 7))
    queries[:5, [2, 5]] = variant.gain[[2, 5]].to(dtype) * patterns[:5, [2, 5]] + variant.bias[[2, 5]].to(dtype)
    assert not serves_mixture(patterns, variant._of_queries(queries)[1])
    if not has_kernels:
        monkeypatch.setattr(finding, "native", None)
    expected = variant.evidence_per_dimension(patterns.double(), queries.double())
    seen = dtype == torch.float64 or expected.abs().amax(-1) < 60  # a match at so narrow a place is rounding in float32
    tolerance = (1e-5 if dtype == torch.float32 else 1e-6) * float(expected.abs().sum(-1).max())  # both signs round
    assert_close(variant.evidence(patterns, queries).double()[seen], expected.sum(-1)[seen], rtol=0, atol=tolerance)
