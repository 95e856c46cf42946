"""NaN means "not observed": what every similarity makes of data with gaps in it."""

from functools import partial
from itertools import product

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.autograd import gradcheck
from torch.testing import assert_close

import ahop
from ahop._core.blocks import blocks
from ahop._core.kernels.rank_weighting import ranked_scores
from ahop.errors import UnsupportedError
from ahop.similarities.base import DecomposableSimilarity, LinearSimilarity, Similarity
from tests.catalogue import (
    DECOMPOSABLE,
    DISCRETE,
    KNOWS_COMPANY,
    KNOWS_GAPS,
    LINEAR,
    PRIMITIVE,
    SILENCE_IS_EVIDENCE,
    SIMILARITIES,
    decomposable,
    made,
)
from tests.formulas import assert_leading_axes_are_a_loop, score_of
from tests.strategies import FEW, Problem, gapped_problems, huge_arrays, problem, problems, with_gaps

NAMES = [name for name in SIMILARITIES if name not in KNOWS_GAPS]
# Laws of the first kind are those of similarities that leave gaps out; the second kind are for all that know gaps.
# What a gap means to the others is in `test_silence`.
every_similarity = pytest.mark.parametrize("name", NAMES)
every_decomposable = pytest.mark.parametrize("name", [n for n in NAMES if n in DECOMPOSABLE and n in PRIMITIVE])
ALL_THAT_UNDERSTAND = [*NAMES, *SILENCE_IS_EVIDENCE]
UNDERSTAND = [name for name in ALL_THAT_UNDERSTAND if name in PRIMITIVE]
every_one_that_understands = pytest.mark.parametrize("name", ALL_THAT_UNDERSTAND)
every_primitive_that_understands = pytest.mark.parametrize("name", UNDERSTAND)
every_decomposable_that_understands = pytest.mark.parametrize("name", [n for n in UNDERSTAND if n in DECOMPOSABLE])
both_dtypes = st.sampled_from([torch.float32, torch.float64])


def gapped(count: int = 5, dimensions: int = 4, batch: int = 3, seed: int = 0, share: float = 0.3) -> Problem:
    return with_gaps(problem(count, dimensions, batch, seed), share, seed)


def silent(case: Problem) -> Tensor:
    """The pairs with no dimension observed on both sides, by looking at every dimension of each."""
    seen = ~case.queries.isnan().unsqueeze(-2) & ~case.patterns.isnan().unsqueeze(-3)
    return ~seen.any(-1)


# The slow truth: one pair at a time, and of that the shared dimensions alone.


def values_of(base: DecomposableSimilarity, pattern: Tensor, query: Tensor) -> Tensor:
    """The addends of the shared dimensions, then their mean for each of the others."""
    shared = ~pattern.isnan() & ~query.isnan()
    complete = base.per_dimension(pattern.nan_to_num(0.5)[None], query.nan_to_num(0.5)[None])[0, 0]
    values = complete[shared]
    return torch.cat([values, values.mean().expand(len(pattern) - len(values))])


def score_with_gaps(similarity: Similarity, row: int, pattern: Tensor, query: Tensor) -> Tensor:
    if bool((pattern.isnan() | query.isnan()).all()):
        return pattern.new_tensor(torch.finfo(pattern.dtype).min)
    return score_of(values_of, similarity, row, pattern, query)


@every_similarity
@settings(max_examples=FEW)
@given(case=gapped_problems)
def test_a_score_is_that_of_the_shared_dimensions_alone(name: str, case: Problem) -> None:
    similarity = made(name, case)
    scores = similarity(case.patterns, case.queries).detach()
    for (b, query), (n, pattern) in product(enumerate(case.queries), enumerate(case.patterns)):
        assert_close(scores[b, n], score_with_gaps(similarity, n, pattern, query).detach())


@given(case=gapped_problems)
def test_the_euclidean_one_is_the_distance_that_scikit_learn_calls_nan_euclidean(case: Problem) -> None:
    scores = ahop.EuclideanSimilarity()(case.patterns, case.queries)
    for b, n in torch.ones_like(scores).nonzero().tolist():
        squares = [
            (x - y) ** 2
            for x, y in zip(case.queries[b].tolist(), case.patterns[n].tolist(), strict=True)
            if x == x and y == y
        ]
        if squares:
            assert scores[b, n].item() == pytest.approx(-case.sizes[0] / len(squares) * sum(squares))


@every_primitive_that_understands
@given(case=gapped_problems, dtype=both_dtypes)
def test_scores_are_finite_and_keep_their_dtype(name: str, dtype: torch.dtype, case: Problem) -> None:
    scores = made(name, case)(case.patterns.to(dtype), case.queries.to(dtype))
    assert scores.shape == (len(case.queries), len(case.patterns))
    assert scores.dtype == dtype
    assert bool(torch.isfinite(scores).all())


@every_similarity
@given(case=gapped_problems, dtype=both_dtypes)
def test_a_pair_that_shares_nothing_has_the_lowest_score(name: str, dtype: torch.dtype, case: Problem) -> None:
    scores = made(name, case)(case.patterns.to(dtype), case.queries.to(dtype))
    assert torch.equal(scores == torch.finfo(dtype).min, silent(case))


@every_one_that_understands
@settings(max_examples=FEW)
@given(case=gapped_problems)
def test_contributions_with_gaps_sum_to_the_score(name: str, case: Problem) -> None:
    similarity, known = made(name, case), ~silent(case)
    with torch.no_grad():
        found = similarity.contributions(case.patterns, case.queries).scores
        expected = similarity(case.patterns, case.queries)
    assert_close(found[known], expected[known], atol=1e-5, rtol=1e-5)


@every_primitive_that_understands
@given(case=problems)
def test_complete_data_meets_the_formula_alone(name: str, case: Problem) -> None:
    similarity = made(name, case)
    assert torch.equal(similarity(case.patterns, case.queries), similarity.forward(case.patterns, case.queries))


@every_decomposable_that_understands
@given(case=problems)
def test_addends_of_complete_data_are_those_of_the_formula(name: str, case: Problem) -> None:
    base = decomposable(name, case)
    assert base.rule_for(case.patterns, case.queries) == base.per_dimension
    expected = base.per_dimension(case.patterns, case.queries)
    assert torch.equal(base.addends(case.patterns, case.queries), expected)


@every_decomposable
@settings(max_examples=FEW)
@given(case=gapped_problems)
def test_a_gap_among_the_addends_holds_the_mean_of_the_others(name: str, case: Problem) -> None:
    base = decomposable(name, case)
    addends = base.addends(case.patterns, case.queries)
    for (b, query), (n, pattern) in product(enumerate(case.queries), enumerate(case.patterns)):
        gaps = pattern.isnan() | query.isnan()
        if bool(gaps.all()):
            assert torch.equal(addends[b, n], torch.zeros_like(pattern))
        else:
            expected = base.per_dimension(pattern.nan_to_num(1.0)[None], query.nan_to_num(1.0)[None])[0, 0]
            assert torch.equal(addends[b, n][~gaps], expected[~gaps])
            assert_close(addends[b, n][gaps], expected[~gaps].mean().expand(int(gaps.sum())))


@every_decomposable_that_understands
@given(case=gapped_problems)
def test_a_fast_form_is_the_sum_of_the_addends(name: str, case: Problem) -> None:
    base = decomposable(name, case)
    expected = base.addends(case.patterns, case.queries).sum(-1)
    pairs = ~silent(case)
    assert_close(base.partial(case.patterns, case.queries)[pairs], expected[pairs])


@every_decomposable_that_understands
def test_the_addends_of_data_with_gaps_are_the_callers_to_overwrite(name: str) -> None:
    case = gapped()
    patterns, queries = case.patterns.clone(), case.queries.clone()
    decomposable(name, case).addends(patterns, queries).detach().zero_()
    assert_close(patterns, case.patterns, rtol=0, atol=0, equal_nan=True)
    assert_close(queries, case.queries, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("name", [name for name in NAMES if name in LINEAR])
@given(case=gapped_problems)
def test_a_score_is_features_times_coefficients(name: str, case: Problem) -> None:
    similarity = made(name, case)
    assert isinstance(similarity, LinearSimilarity)
    features = similarity.features(case.patterns, case.queries)
    expected = features @ similarity.coefficients.to(features)
    assert bool(torch.isfinite(features).all())
    assert not bool(expected[silent(case)].any())
    scores = similarity(case.patterns, case.queries)
    assert_close(scores[~silent(case)], expected[~silent(case)], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("base", ["dot", "euclidean", "manhattan", "match"])
@given(case=gapped_problems)
def test_a_footprint_grows_by_the_addends_best_first(base: str, case: Problem) -> None:
    similarity = decomposable(base, case)
    addends = similarity.addends(case.patterns, case.queries)
    steps = ahop.similarities.footprint(similarity, case.patterns, case.queries).diff(
        dim=-1, prepend=torch.zeros_like(addends[..., :1])
    )
    assert_close(steps, addends.sort(-1, descending=True).values)


@every_primitive_that_understands
@given(case=gapped_problems)
def test_no_score_depends_on_the_other_queries_or_on_their_order(name: str, case: Problem) -> None:
    similarity, order = made(name, case), torch.randperm(len(case.queries))
    scores = similarity(case.patterns, case.queries)
    assert_close(similarity(case.patterns, case.queries[order]), scores[order])
    for row, query in enumerate(case.queries):
        assert_close(similarity(case.patterns, query[None])[0], scores[row])


@every_one_that_understands
@given(case=gapped_problems)
def test_no_score_depends_on_the_other_patterns_or_on_their_order(name: str, case: Problem) -> None:
    similarity, order = made(name, case), torch.randperm(len(case.patterns))
    scores = similarity(case.patterns, case.queries)
    assert_close(similarity.rows(order)(case.patterns[order], case.queries), scores[:, order])
    if name in KNOWS_COMPANY:
        return
    for row in range(len(case.patterns)):
        alone = similarity.rows(torch.tensor([row]))(case.patterns[row : row + 1], case.queries)
        assert_close(alone[:, 0], scores[:, row])


@every_primitive_that_understands
def test_leading_axes_are_a_loop(name: str) -> None:
    cases = [gapped(seed=seed) for seed in range(3)]
    assert_leading_axes_are_a_loop(made(name, cases[0]), cases)


@every_primitive_that_understands
def test_blocks_of_any_size_give_one_answer(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    case = gapped(count=7, dimensions=5, batch=6)
    similarity = made(name, case)
    whole = similarity(case.patterns, case.queries)
    for budget in (1, 200, 1000):
        monkeypatch.setattr("ahop.similarities.base.CACHE_BYTES", budget)
        monkeypatch.setattr("ahop._core.kernels.rank_weighting.CACHE_BYTES", budget)
        monkeypatch.setattr("ahop.variants.mixture.BLOCK_BYTES", budget)
        monkeypatch.setattr("ahop.similarities.additive.blocks", partial(blocks, budget=budget))
        assert_close(similarity(case.patterns, case.queries), whole)


@every_primitive_that_understands
def test_float32_scores_are_float64_scores_rounded(name: str) -> None:
    case = gapped(count=20, dimensions=30, batch=10)
    similarity, patterns, queries = made(name, case), case.patterns.float(), case.queries.float()
    pairs = ~silent(case)
    exact = similarity(patterns.double(), queries.double())
    assert_close(similarity(patterns, queries)[pairs].double(), exact[pairs], rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("name", ["euclidean", "unified"])
def test_a_large_common_offset_costs_no_digits(name: str) -> None:
    case = gapped(count=40, batch=30)
    similarity, patterns, queries = made(name, case), case.patterns.float() + 1e4, case.queries.float() + 1e4
    pairs = ~silent(case)
    exact = similarity(patterns.double(), queries.double())
    assert_close(similarity(patterns, queries)[pairs].double(), exact[pairs], rtol=1e-4, atol=1e-2)


@every_one_that_understands
@given(patterns=huge_arrays(3, 3), queries=huge_arrays(2, 3), dtype=both_dtypes)
def test_huge_values_beside_gaps_have_finite_scores(
    name: str, dtype: torch.dtype, patterns: Tensor, queries: Tensor
) -> None:
    case = with_gaps(Problem(patterns.to(dtype), queries.to(dtype)), seed=int(patterns.sum() > 0))
    scores = made(name, case)(case.patterns, case.queries)
    assert scores.dtype == dtype
    assert bool(torch.isfinite(scores).all())


@every_primitive_that_understands
@given(case=gapped_problems)
def test_gradients_are_finite_and_zero_where_nothing_was_observed(name: str, case: Problem) -> None:
    similarity = made(name, case)
    inputs = [case.patterns.requires_grad_(), case.queries.requires_grad_(), *similarity.parameters()]
    scores = similarity(case.patterns, case.queries)
    if not scores.requires_grad:
        return
    total = scores.masked_fill(silent(case), 0).sum()
    slopes = torch.autograd.grad(total, inputs, allow_unused=True, materialize_grads=True)
    for values, slope in zip(inputs, slopes, strict=True):
        assert bool(torch.isfinite(slope).all())
        assert not bool(slope[values.isnan()].any())


@pytest.mark.parametrize("name", [name for name in UNDERSTAND if name not in DISCRETE])
def test_gradients_are_those_that_finite_differences_see(name: str) -> None:
    case = gapped(count=3, dimensions=4, batch=2, seed=1)
    similarity = made(name, case).double()
    seen_patterns, seen_queries = ~case.patterns.isnan(), ~case.queries.isnan()

    def scores(patterns: Tensor, queries: Tensor) -> Tensor:
        found = similarity(
            torch.full_like(case.patterns, torch.nan).masked_scatter(seen_patterns, patterns),
            torch.full_like(case.queries, torch.nan).masked_scatter(seen_queries, queries),
        )
        return found.masked_fill(silent(case), 0)

    assert not bool(seen_patterns.all())
    assert not bool(seen_queries.all())
    gradcheck(scores, (case.patterns[seen_patterns].requires_grad_(), case.queries[seen_queries].requires_grad_()))


@pytest.mark.parametrize(
    "similarity",
    [
        ahop.EuclideanSimilarity(),
        ahop.similarities.ManhattanSimilarity(),
        ahop.similarities.MatchSimilarity(),
        ahop.similarities.UnifiedSimilarity(8),
        ahop.similarities.FootprintSimilarity(ahop.EuclideanSimilarity(), 8),
        ahop.AdaptiveSimilarity(8, [ahop.similarities.ManhattanSimilarity()]),
        ahop.similarities.IsolatedSimilarity(50, 8, [ahop.EuclideanSimilarity()]),
    ],
    ids=repr,
)
def test_a_stored_pattern_with_gaps_is_closest_to_itself(similarity: Similarity) -> None:
    patterns = torch.randn(50, 8)
    patterns[torch.rand(50, 8) < 0.3] = torch.nan
    assert bool(patterns.isnan().any())
    assert torch.equal(similarity(patterns, patterns).argmax(-1), torch.arange(50))


def test_ranked_scores_need_no_more_than_the_addends() -> None:
    case = gapped(count=30, dimensions=6, batch=8)
    base, weights = ahop.EuclideanSimilarity(), torch.randn(6, dtype=torch.float64)
    assert base.rule_for(case.patterns, case.queries) == base.addends
    expected = base.addends(case.patterns, case.queries).sort(-1, descending=True).values @ weights
    assert_close(ranked_scores(base.addends, weights, case.patterns, case.queries), expected)


def test_a_similarity_that_does_not_know_gaps_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    case = gapped()
    monkeypatch.setattr(ahop.DotSimilarity, "partial", Similarity.partial)
    with pytest.raises(
        UnsupportedError, match=r"DotSimilarity\(\) does not say.*not observed \(NaN\)\. Fill them first"
    ):
        ahop.DotSimilarity()(case.patterns, case.queries)


def test_a_similarity_to_which_gaps_are_evidence_gets_the_data_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    patterns = torch.tensor([[torch.nan, torch.nan], [torch.nan, 1.0], [1.0, 1.0]])
    compare = ahop.similarities.MatchSimilarity.per_dimension  # nothing is equal to what was not observed
    monkeypatch.setattr(ahop.similarities.MatchSimilarity, "forward", lambda *given: compare(*given).sum(-1))
    monkeypatch.setattr(ahop.similarities.MatchSimilarity, "missing_is_evidence", True)
    matches = torch.tensor([[0.0, 0.0, 0.0], [0.0, 1.0, 1.0], [0.0, 1.0, 2.0]])
    similarities = [
        ahop.similarities.MatchSimilarity(),
        ahop.similarities.FootprintSimilarity(ahop.similarities.MatchSimilarity(), 2),
        ahop.AdaptiveSimilarity(2, [ahop.similarities.MatchSimilarity()]),
        ahop.similarities.IsolatedSimilarity(3, 2, [ahop.similarities.MatchSimilarity()]),
    ]
    for similarity in similarities:
        assert torch.equal(similarity(patterns, patterns), matches)


@pytest.mark.parametrize(
    "similarity",
    [ahop.DotSimilarity(), ahop.AdaptiveSimilarity(4, [ahop.similarities.MatchSimilarity(), ahop.DotSimilarity()])],
)
def test_compiled_code_does_not_look_for_gaps(similarity: Similarity, monkeypatch: pytest.MonkeyPatch) -> None:
    case = problem()
    queries = case.queries.index_fill(1, torch.tensor([0]), torch.nan)
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    assert bool(similarity(case.patterns, queries).isnan().all())
