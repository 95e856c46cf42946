"""The footprint [eqn:ftpt] and why sorting is enough [thm:equiv]."""

from itertools import combinations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from ahop import AdaptiveSimilarity, DotSimilarity, EuclideanSimilarity
from ahop.similarities import FootprintSimilarity, ManhattanSimilarity, MatchSimilarity, footprint
from ahop.similarities.base import DecomposableSimilarity
from ahop.similarities.footprint import from_paper_weights, rank_weights_of, subspace_weights_of
from tests.paper.worlds import few, gaussian, matrices, uniform_patterns, vectors

BASES = [EuclideanSimilarity(), DotSimilarity(), ManhattanSimilarity(), MatchSimilarity()]
each_base = pytest.mark.parametrize("base", BASES, ids=repr)


def lower_left(dimensions: int) -> Tensor:
    """U of the main text: ones where the column is not beyond the row."""
    return torch.tensor(
        [[1.0 if column <= row else 0.0 for column in range(dimensions)] for row in range(dimensions)],
        dtype=torch.float64,
    )


def best_of_all_subspaces(base: DecomposableSimilarity, pattern: Tensor, query: Tensor, size: int) -> float:
    """sim^(k) by its definition: the largest similarity over all subspaces of that size."""
    subspaces = combinations(range(len(pattern)), size)
    return max(float(base(pattern[None, list(chosen)], query[None, list(chosen)])) for chosen in subspaces)


@each_base
@few
@given(st.data())
def test_the_footprint_is_the_largest_similarity_over_all_subspaces_of_each_size(
    base: DecomposableSimilarity, data: st.DataObject
) -> None:
    dimensions = data.draw(st.integers(1, 6))
    # Halves, so that values agree, tie and cancel often.
    pattern, query = (data.draw(vectors(dimensions).map(lambda v: (2 * v).round() / 2)) for _ in range(2))
    by_sorting = footprint(base, pattern[None], query[None]).flatten()
    by_definition = [best_of_all_subspaces(base, pattern, query, size) for size in range(1, dimensions + 1)]
    torch.testing.assert_close(by_sorting, torch.tensor(by_definition, dtype=torch.float64))


@each_base
@few
@given(matrices(3, 5), matrices(2, 5))
def test_a_decomposable_similarity_is_the_sum_of_its_dimensions(
    base: DecomposableSimilarity, patterns: Tensor, queries: Tensor
) -> None:
    one_by_one = torch.tensor(
        [[sum(float(base(xi[None, None], x[None, None])) for xi, x in zip(p, q, strict=True)) for p in patterns]
         for q in queries],
        dtype=torch.float64,
    )  # fmt: skip
    torch.testing.assert_close(base(patterns, queries), one_by_one)


@each_base
def test_the_footprint_is_the_lower_left_triangle_times_the_descending_similarities(
    base: DecomposableSimilarity,
) -> None:
    patterns, queries = uniform_patterns(5, 7), uniform_patterns(4, 7, seed=1)
    descending = base.per_dimension(patterns, queries).sort(-1, descending=True).values
    torch.testing.assert_close(footprint(base, patterns, queries), descending @ lower_left(7).mT)


@each_base
def test_the_ascending_convention_with_an_upper_right_triangle_is_the_same_footprint_in_reverse(
    base: DecomposableSimilarity,
) -> None:
    patterns, queries = uniform_patterns(5, 7), uniform_patterns(4, 7, seed=1)
    ascending = base.per_dimension(patterns, queries).sort(-1).values
    upper_right = lower_left(7).mT
    torch.testing.assert_close(footprint(base, patterns, queries).flip(-1), ascending @ upper_right.mT)


@each_base
def test_all_weight_on_the_whole_space_is_the_base_similarity(base: DecomposableSimilarity) -> None:
    patterns, queries = uniform_patterns(5, 7), uniform_patterns(4, 7, seed=1)
    similarity = FootprintSimilarity(base, 7)
    with torch.no_grad():
        similarity.weights.copy_(torch.tensor([0.0, 0, 0, 0, 0, 0, 1]))
    torch.testing.assert_close(similarity(patterns, queries), base(patterns, queries))


def test_the_adaptive_similarity_starts_as_the_sum_of_its_base_similarities() -> None:
    patterns, queries = uniform_patterns(5, 7), uniform_patterns(4, 7, seed=1)
    expected = EuclideanSimilarity()(patterns, queries) + DotSimilarity()(patterns, queries)
    torch.testing.assert_close(AdaptiveSimilarity(7)(patterns, queries), expected)


@each_base
@few
@given(vectors(6), matrices(3, 6), matrices(2, 6))
def test_the_score_is_the_weighted_footprint(
    base: DecomposableSimilarity, weights: Tensor, patterns: Tensor, queries: Tensor
) -> None:
    similarity = FootprintSimilarity(base, 6)
    with torch.no_grad():
        similarity.weights.copy_(weights)
    expected = footprint(base, patterns, queries) @ similarity.weights.double()
    torch.testing.assert_close(similarity(patterns, queries), expected, rtol=1e-5, atol=1e-3)


@few
@given(vectors(9))
def test_rank_weights_are_the_transposed_triangle_times_the_subspace_weights(weights: Tensor) -> None:
    torch.testing.assert_close(rank_weights_of(weights), lower_left(9).mT @ weights)


@few
@given(vectors(9))
def test_rank_weights_and_subspace_weights_invert_each_other(weights: Tensor) -> None:
    torch.testing.assert_close(subspace_weights_of(rank_weights_of(weights)), weights)
    torch.testing.assert_close(rank_weights_of(subspace_weights_of(weights)), weights)


@each_base
def test_paper_weights_of_the_ascending_convention_score_the_same_once_flipped(base: DecomposableSimilarity) -> None:
    patterns, queries, theirs = uniform_patterns(5, 7), uniform_patterns(4, 7, seed=1), gaussian(7).float().double()
    ascending = base.per_dimension(patterns, queries).sort(-1).values
    upper_right = lower_left(7).mT
    expected = (ascending @ upper_right.mT) @ theirs
    similarity = FootprintSimilarity(base, 7)
    with torch.no_grad():
        similarity.weights.copy_(from_paper_weights(theirs))
    torch.testing.assert_close(similarity(patterns, queries), expected, rtol=1e-5, atol=1e-6)


def test_the_printed_first_weight_of_the_isotropic_lemma_is_the_last_weight_here() -> None:
    """w_1 = 1 of lem:opt-iso-noisy is the whole space only when the order ascends."""
    printed = torch.tensor([1.0, 0, 0, 0])
    assert from_paper_weights(printed).tolist() == [0, 0, 0, 1]
    assert rank_weights_of(from_paper_weights(printed)).tolist() == [1, 1, 1, 1]
    assert rank_weights_of(printed).tolist() == [1, 0, 0, 0], "read as descending, it would look at one dimension only"


def test_the_weights_suggested_for_masked_variants_favor_small_subspaces() -> None:
    """The discussion suggests w_i = iC and says it stresses small subspaces: true in the ascending convention only."""
    suggested = from_paper_weights(2.0 * 64 * torch.arange(1, 5))
    assert suggested.tolist() == sorted(suggested.tolist(), reverse=True)
