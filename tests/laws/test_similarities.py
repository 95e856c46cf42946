"""What every similarity keeps: larger is closer, each pair on its own, and nothing but finite numbers."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.autograd import gradcheck
from torch.func import functional_call
from torch.testing import assert_close

import ahop
from ahop.similarities.adaptive import AdaptiveSimilarity
from ahop.similarities.base import LinearSimilarity, Similarity
from ahop.similarities.footprint import from_paper_weights
from ahop.similarities.isolated import IsolatedSimilarity
from tests.catalogue import (
    DECOMPOSABLE,
    DISCRETE,
    KNOWS_DIMENSIONS,
    KNOWS_PATTERNS,
    LINEAR,
    PRIMITIVE,
    SIMILARITIES,
    decomposable,
    made,
)
from tests.formulas import assert_leading_axes_are_a_loop
from tests.strategies import Problem, huge_arrays, problem, problems

every_similarity = pytest.mark.parametrize("name", SIMILARITIES)
every_primitive = pytest.mark.parametrize("name", PRIMITIVE)
every_smooth_primitive = pytest.mark.parametrize("name", [name for name in PRIMITIVE if name not in DISCRETE])
every_decomposable = pytest.mark.parametrize("name", [name for name in DECOMPOSABLE if name in PRIMITIVE])
both_dtypes = st.sampled_from([torch.float32, torch.float64])


def linear(name: str, case: Problem) -> LinearSimilarity:
    similarity = made(name, case)
    assert isinstance(similarity, LinearSimilarity)
    return similarity


@every_decomposable
@given(case=problems)
def test_a_score_is_the_sum_over_dimensions(name: str, case: Problem) -> None:
    similarity = decomposable(name, case)
    addends = similarity.per_dimension(case.patterns, case.queries)
    assert_close(similarity(case.patterns, case.queries), addends.sum(-1))


@every_similarity
@given(case=problems)
def test_a_score_is_the_sum_of_its_contributions(name: str, case: Problem) -> None:
    similarity = made(name, case)
    with torch.no_grad():
        found = similarity.contributions(case.patterns, case.queries)
        assert_close(found.scores, similarity(case.patterns, case.queries), atol=1e-5, rtol=1e-5)
    assert found.dimensions.shape == (len(case.queries), *case.patterns.shape)


@every_decomposable
def test_the_addends_are_the_callers_to_overwrite(name: str) -> None:
    case = problem()
    patterns, queries = case.patterns.clone(), case.queries.clone()
    decomposable(name, case).per_dimension(patterns, queries).detach().zero_()
    assert torch.equal(patterns, case.patterns)
    assert torch.equal(queries, case.queries)


@pytest.mark.parametrize("name", ["euclidean", "unified", "likelihood of noise"])
def test_a_large_common_offset_costs_no_digits(name: str) -> None:
    case = problem(count=40, batch=30, dtype=torch.float32)
    similarity = made(name, case)
    patterns, queries = case.patterns + 1e4, case.queries + 1e4
    exact = similarity(patterns.double(), queries.double())
    assert_close(similarity(patterns, queries).double(), exact, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("name", LINEAR)
@given(case=problems)
def test_a_score_is_features_times_coefficients(name: str, case: Problem) -> None:
    similarity = linear(name, case)
    features = similarity.features(case.patterns, case.queries)
    expected = features @ similarity.coefficients.to(features)
    assert_close(similarity(case.patterns, case.queries), expected, rtol=1e-5, atol=1e-5)
    assert not features.requires_grad


@pytest.mark.parametrize("name", LINEAR)
def test_coefficients_come_back_as_they_were_set(name: str) -> None:
    similarity = linear(name, problem())
    wanted = torch.randn(len(similarity.coefficients), dtype=torch.float64)
    similarity.set_coefficients(wanted)
    assert_close(similarity.coefficients.double(), wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", LINEAR)
def test_every_start_is_smooth(name: str) -> None:
    similarity = linear(name, problem())
    starts = similarity.starts()
    assert starts.shape[1] == len(similarity.coefficients)
    assert_close(similarity.roughness() @ starts.mT, torch.zeros(len(similarity.roughness()), len(starts)).double())


@every_primitive
@given(case=problems)
def test_the_order_of_the_patterns_is_the_order_of_the_columns(name: str, case: Problem) -> None:
    similarity, order = made(name, case), torch.randperm(len(case.patterns))
    permuted = similarity.rows(order)(case.patterns[order], case.queries)
    assert_close(permuted, similarity(case.patterns, case.queries)[:, order])


@every_primitive
@given(case=problems)
def test_the_order_of_the_queries_is_the_order_of_the_rows(name: str, case: Problem) -> None:
    similarity, order = made(name, case), torch.randperm(len(case.queries))
    permuted = similarity(case.patterns, case.queries[order])
    assert_close(permuted, similarity(case.patterns, case.queries)[order])


@every_primitive
@given(case=problems)
def test_no_score_depends_on_the_other_queries(name: str, case: Problem) -> None:
    similarity = made(name, case)
    one_by_one = [similarity(case.patterns, query[None]) for query in case.queries]
    together = similarity(case.patterns, case.queries)
    assert_close(together, torch.cat(one_by_one) if one_by_one else case.queries.new_empty(0, len(case.patterns)))


@every_similarity
def test_no_score_depends_on_the_other_patterns(name: str) -> None:
    case = problem()
    similarity = made(name, case)
    one_by_one = [
        similarity.rows(torch.tensor([row]))(case.patterns[row : row + 1], case.queries)
        for row in range(len(case.patterns))
    ]
    assert_close(similarity(case.patterns, case.queries), torch.cat(one_by_one, dim=-1))


@pytest.mark.parametrize("name", [name for name in PRIMITIVE if name not in KNOWS_DIMENSIONS])
@given(case=problems)
def test_the_order_of_the_dimensions_does_not_matter(name: str, case: Problem) -> None:
    similarity, order = made(name, case), torch.randperm(case.sizes[0])
    permuted = similarity(case.patterns[:, order], case.queries[:, order])
    assert_close(permuted, similarity(case.patterns, case.queries))


@every_primitive
def test_leading_axes_are_a_loop(name: str) -> None:
    cases = [problem(seed=seed) for seed in range(3)]
    assert_leading_axes_are_a_loop(made(name, cases[0]), cases)


@every_primitive
def test_the_dtype_that_comes_in_goes_out(name: str) -> None:
    for dtype in (torch.float32, torch.float64):
        case = problem(dtype=dtype)
        similarity = made(name, case)
        assert similarity(case.patterns, case.queries).dtype == dtype
        assert similarity.double()(case.patterns, case.queries).dtype == dtype


@every_primitive
def test_float32_scores_are_float64_scores_rounded(name: str) -> None:
    case = problem(count=20, dimensions=30, dtype=torch.float32)
    similarity = made(name, case)
    exact = similarity(case.patterns.double(), case.queries.double())
    assert_close(similarity(case.patterns, case.queries).double(), exact, rtol=1e-4, atol=1e-3)


@every_similarity
def test_the_smallest_sizes_work(name: str) -> None:
    for count, dimensions, batch in ((1, 1, 1), (1, 4, 2), (3, 1, 2), (5, 4, 0), (1, 1, 0)):
        case = problem(count, dimensions, batch)
        scores = made(name, case)(case.patterns, case.queries)
        assert scores.shape == (batch, count)
        assert bool(torch.isfinite(scores).all())


@every_primitive
def test_a_pattern_stored_twice_scores_twice_the_same(name: str) -> None:
    case = problem()
    rows = torch.tensor([0, 1, 2, 3, 4, 1])
    scores = made(name, case).rows(rows)(case.patterns[rows], case.queries)
    assert_close(scores[:, 5], scores[:, 1])


@every_smooth_primitive
def test_gradients_in_the_data_are_right(name: str) -> None:
    case = problem(count=3, dimensions=3, batch=2)
    similarity = made(name, case).double()
    gradcheck(similarity, (case.patterns.requires_grad_(), case.queries.requires_grad_()))


@every_smooth_primitive
@pytest.mark.parametrize("data_needs_gradient", [False, True])
def test_gradients_in_the_parameters_are_right(name: str, data_needs_gradient: bool) -> None:
    case = problem(count=3, dimensions=3, batch=2)
    similarity = made(name, case).double()
    parameters = {key: value.detach().requires_grad_() for key, value in similarity.named_parameters()}
    case.queries.requires_grad_(data_needs_gradient)

    def scores(*values: Tensor) -> Tensor:
        named = dict(zip(parameters, values, strict=True))
        found: Tensor = functional_call(similarity, named, (case.patterns, case.queries))
        return found

    if parameters:
        gradcheck(scores, tuple(parameters.values()))


@pytest.mark.parametrize("name", ["match", "footprint of match", "likelihood of a mask"])
def test_counting_has_no_slope(name: str) -> None:
    case = problem()
    scores = made(name, case)(case.patterns, case.queries.requires_grad_())
    if scores.requires_grad:
        (slope,) = torch.autograd.grad(scores.sum(), case.queries, allow_unused=True, materialize_grads=True)
        assert not bool(slope.any())


@every_similarity
@given(patterns=huge_arrays(3, 2), queries=huge_arrays(2, 2), dtype=both_dtypes)
def test_finite_in_finite_out(name: str, dtype: torch.dtype, patterns: Tensor, queries: Tensor) -> None:
    case = Problem(patterns.to(dtype), queries.to(dtype))
    scores = made(name, case)(case.patterns, case.queries)
    assert scores.dtype == dtype
    assert bool(torch.isfinite(scores).all())


@pytest.mark.parametrize("offset", [0.0, 1e3])
@pytest.mark.parametrize(
    "similarity",
    [
        ahop.EuclideanSimilarity(),
        ahop.similarities.ManhattanSimilarity(),
        ahop.similarities.MatchSimilarity(),
        ahop.similarities.CorrelationSimilarity(),
        ahop.similarities.SorensenSimilarity(),
        ahop.similarities.TransformedSimilarity(ahop.EuclideanSimilarity(), ahop.transforms.SNVTransform()),
        ahop.similarities.AlignedSimilarity(ahop.similarities.SorensenSimilarity(), 6),
        ahop.similarities.PooledSimilarity([ahop.EuclideanSimilarity(), ahop.similarities.CorrelationSimilarity()]),
        ahop.similarities.UnifiedSimilarity(6),
        ahop.similarities.FootprintSimilarity(ahop.EuclideanSimilarity(), 6),
        ahop.similarities.FootprintSimilarity(ahop.similarities.ManhattanSimilarity(), 6),
        ahop.AdaptiveSimilarity(6, [ahop.EuclideanSimilarity()]),
        ahop.similarities.IsolatedSimilarity(50, 6, [ahop.EuclideanSimilarity()]),
        ahop.likelihood.LikelihoodSimilarity(ahop.NoisyVariant(0.1)),
        ahop.likelihood.LikelihoodSimilarity(ahop.variants.BiasedVariant(0.0)),
        ahop.likelihood.LikelihoodSimilarity(ahop.variants.MaskedVariant(0.2)),
        ahop.likelihood.LikelihoodSimilarity(ahop.MixedVariant(0.0, 0.1, 0.0)),
    ],
    ids=repr,
)
def test_a_stored_pattern_is_closest_to_itself(similarity: Similarity, offset: float) -> None:
    patterns = torch.randn(50, 6) + offset
    assert torch.equal(similarity(patterns, patterns).argmax(-1), torch.arange(50))


@every_similarity
def test_only_a_similarity_that_knows_its_patterns_changes_with_their_number(name: str) -> None:
    case = problem()
    similarity = made(name, case)
    if isinstance(similarity, IsolatedSimilarity):
        assert similarity.rows(torch.tensor([4, 0])).count == 2
        assert similarity.grown(3).count == 8
    elif name in KNOWS_PATTERNS:
        more = torch.cat([case.patterns, case.patterns[:3]])
        assert similarity.rows(torch.tensor([4, 0]))(case.patterns[:2], case.queries).shape == (3, 2)
        assert similarity.grown(3)(more, case.queries).shape == (3, 8)
    else:
        assert similarity.rows(torch.tensor([4, 0])) is similarity
        assert similarity.grown(3) is similarity


def test_a_grown_isolated_similarity_keeps_its_weights_and_starts_new_ones_at_the_base() -> None:
    case, more = problem(), problem(seed=1)
    similarity = made("isolated", case)
    grown = similarity.grown(5)
    scores = grown(torch.cat([case.patterns, more.patterns]), case.queries)
    assert_close(scores[:, :5], similarity(case.patterns, case.queries))
    assert_close(scores[:, 5:], AdaptiveSimilarity(4)(more.patterns, case.queries))


@pytest.mark.parametrize("rows", [slice(1, 3), torch.tensor([1, 2])], ids=["slice", "indices"])
def test_rows_of_an_isolated_similarity_have_weights_of_their_own(rows: slice | Tensor) -> None:
    case = problem()
    similarity = made("isolated", case)
    before = similarity(case.patterns, case.queries)
    part = similarity.rows(rows)
    assert_close(part(case.patterns[1:3], case.queries), before[:, 1:3])
    with torch.no_grad():
        next(part.parameters()).zero_()
    assert torch.equal(similarity(case.patterns, case.queries), before)


def test_an_isolated_similarity_says_how_many_patterns_it_knows() -> None:
    case = problem()
    with pytest.raises(ahop.errors.ShapeError, match=r"`patterns` must have 5 rows.*got 2.*similarity\.rows"):
        made("isolated", case)(case.patterns[:2], case.queries)


@pytest.mark.parametrize("name", ["footprint of dot", "adaptive", "isolated"])
def test_untrained_weights_are_the_base_similarity(name: str) -> None:
    case = problem()
    fresh: dict[str, Similarity] = {
        "footprint of dot": ahop.similarities.FootprintSimilarity(ahop.DotSimilarity(), 4),
        "adaptive": ahop.AdaptiveSimilarity(4, [ahop.DotSimilarity()]),
        "isolated": ahop.similarities.IsolatedSimilarity(5, 4, [ahop.DotSimilarity()]),
    }
    expected = ahop.DotSimilarity()(case.patterns, case.queries)
    assert_close(fresh[name](case.patterns, case.queries), expected)


@pytest.mark.parametrize("base", ["dot", "euclidean", "manhattan", "match"])
def test_a_footprint_is_the_best_subspace_of_each_size(base: str) -> None:
    case = problem(count=3, dimensions=5, batch=2)
    similarity = decomposable(base, case)
    values = similarity.per_dimension(case.patterns, case.queries)
    best = [
        torch.stack([values[..., list(chosen)].sum(-1) for chosen in _subsets(5, size)]).amax(0) for size in range(1, 6)
    ]
    assert_close(ahop.similarities.footprint(similarity, case.patterns, case.queries), torch.stack(best, dim=-1))


def _subsets(total: int, size: int) -> list[Tensor]:
    return list(torch.combinations(torch.arange(total), size))


def test_weights_of_the_papers_table_count_from_the_other_end() -> None:
    assert torch.equal(from_paper_weights(torch.tensor([1.0, 0.0, 0.0])), torch.tensor([0.0, 0.0, 1.0]))


@pytest.mark.parametrize(
    "make", [ahop.AdaptiveSimilarity, lambda d, bases: ahop.similarities.IsolatedSimilarity(2, d, bases)]
)
def test_at_least_one_base_is_needed(make: type[AdaptiveSimilarity]) -> None:
    with pytest.raises(ahop.errors.InvalidValueError, match="`bases` must name at least one"):
        make(3, [])


def test_the_optimal_similarity_for_noise_is_its_likelihood_up_to_a_constant() -> None:
    case = problem()
    variance = torch.tensor([0.1, 0.5, 1.0, 2.0])
    scores = ahop.similarities.optimal_for_noisy(variance)(case.patterns, case.queries)
    likelihood = ahop.NoisyVariant(variance).log_likelihood(case.patterns, case.queries)
    assert_close(0.5 * (scores - scores[:, :1]), likelihood - likelihood[:, :1], rtol=1e-5, atol=1e-5)


def test_the_optimal_similarity_for_a_bias_is_the_distance_without_it_up_to_a_constant() -> None:
    case = problem()
    bias = torch.tensor([0.5, -0.5, 1.0, 0.0])
    scores = ahop.similarities.optimal_for_biased(bias)(case.patterns, case.queries)
    distances = ahop.EuclideanSimilarity()(case.patterns, case.queries - bias.double())
    assert_close(scores - scores[:, :1], distances - distances[:, :1])


def test_the_optimal_similarity_for_a_mask_counts_agreements() -> None:
    patterns = torch.tensor([[1.0, 2.0, 3.0], [1.0, 0.0, 3.0]])
    assert torch.equal(ahop.similarities.optimal_for_masked()(patterns, patterns[:1]), torch.tensor([[3.0, 2.0]]))
