"""Optimal correct retrieval: the four lemmas and [thm:ret-dyn], against the Bayes oracle on every sampled query."""

import pytest
import torch
from torch import Tensor

from ahop import AssociativeMemory, DotSimilarity, EuclideanSimilarity, NoisyVariant, Softmax, evaluate
from ahop.paper.criteria import correctly_retrieved
from ahop.separations import Argmax
from ahop.separations.base import Separation
from ahop.similarities import (
    FootprintSimilarity,
    ManhattanSimilarity,
    optimal_for_biased,
    optimal_for_masked,
    optimal_for_noisy,
)
from ahop.similarities.base import Similarity
from ahop.similarities.footprint import from_paper_weights
from ahop.variants import BiasedVariant, MaskedVariant, log_posterior
from ahop.variants.base import Variant
from tests.paper.worlds import four_standard_errors, gaussian, uniform_patterns

N, D, QUERIES = 200, 8, 3000
PATTERNS = uniform_patterns(N, D)
VARIANCE = torch.tensor([0.01, 0.02, 0.05, 0.1, 0.4, 0.8, 2.0, 4.0])
BIAS = torch.tensor([0.9, -0.4, 1.5, 0.0, -2.0, 0.3, 0.7, -1.1])

PROVEN: list[tuple[Similarity, Variant]] = [
    (EuclideanSimilarity(), NoisyVariant(0.15)),
    (optimal_for_noisy(VARIANCE), NoisyVariant(VARIANCE)),
    (optimal_for_masked(), MaskedVariant(0.2)),
    (optimal_for_masked(), MaskedVariant(0.5)),
    (optimal_for_masked(), MaskedVariant(0.8)),
    (optimal_for_biased(BIAS), BiasedVariant(BIAS)),
]


def always_correct(similarity: Similarity, variant: Variant, separation: Separation | None = None) -> float:
    """The share of correct retrievals among the queries whose best origin is unique."""
    queries = variant.sample(PATTERNS, QUERIES).queries
    memory = AssociativeMemory(PATTERNS, similarity, separation or Argmax())
    posterior = log_posterior(variant, PATTERNS, queries)
    unique = (posterior > posterior.amax(-1, keepdim=True) - 1e-9).sum(-1) == 1
    assert float(unique.double().mean()) > 0.8
    correct = correctly_retrieved(memory.retrieve(queries), queries, PATTERNS, variant)
    return float(correct[unique].double().mean())


def accuracy(similarity: Similarity, variant: Variant) -> float:
    pairs = variant.sample(PATTERNS, QUERIES, seed=1)
    return evaluate(AssociativeMemory(PATTERNS, similarity, Argmax()), pairs).accuracy


def upper_right(dimensions: int) -> Tensor:
    """U of the lemmas."""
    return torch.ones(dimensions, dimensions, dtype=torch.float64).triu()


@pytest.mark.parametrize(("similarity", "variant"), PROVEN, ids=repr)
def test_the_closed_form_similarities_retrieve_every_query_correctly(similarity: Similarity, variant: Variant) -> None:
    assert always_correct(similarity, variant) == 1


@pytest.mark.parametrize("similarity", [EuclideanSimilarity(), DotSimilarity(), ManhattanSimilarity()], ids=repr)
@pytest.mark.parametrize(("best", "variant"), PROVEN[1:], ids=repr)
def test_no_fixed_similarity_does_as_well_where_the_corruption_is_not_isotropic_noise(
    similarity: Similarity, best: Similarity, variant: Variant
) -> None:
    ceiling, fixed = accuracy(best, variant), accuracy(similarity, variant)
    assert ceiling - fixed > four_standard_errors(ceiling, QUERIES) + four_standard_errors(fixed, QUERIES)


# --- lem:opt-iso-noisy


def test_the_isotropic_optimum_is_the_footprint_with_the_printed_weights_in_the_ascending_convention() -> None:
    similarity = FootprintSimilarity(EuclideanSimilarity(), D)
    printed = torch.eye(D)[0]
    with torch.no_grad():
        similarity.weights.copy_(from_paper_weights(printed))
    assert always_correct(similarity, NoisyVariant(0.15)) == 1
    with torch.no_grad():
        similarity.weights.copy_(printed)
    assert always_correct(similarity, NoisyVariant(0.15)) < 0.5, "taken as descending, w_1 = 1 sees one dimension"


def test_the_isotropic_optimum_does_not_depend_on_how_strong_the_noise_is() -> None:
    assert {always_correct(EuclideanSimilarity(), NoisyVariant(variance)) for variance in (0.01, 0.1, 1.0)} == {1.0}


# --- lem:opt-noisy


def test_the_printed_weights_for_noise_give_minus_the_precisions_by_the_upper_right_triangle() -> None:
    inverse = (1 / VARIANCE).double()
    printed = torch.cat([-inverse[:1], inverse[:-1] - inverse[1:]])
    torch.testing.assert_close(printed @ upper_right(D), -inverse)
    # They weigh q = +(xi - x)^2; with the sign turned, as everywhere else, they are the precisions.
    torch.testing.assert_close(optimal_for_noisy(VARIANCE).precision.detach().double(), inverse)
    wrong = printed @ upper_right(D).mT
    assert not torch.allclose(wrong, -inverse), "the lower-left triangle of the main text needs other weights"


def test_isotropic_noise_is_a_special_case_of_noise() -> None:
    queries = gaussian(20, D)
    ours = optimal_for_noisy(torch.full((D,), 0.5))(PATTERNS, queries)
    torch.testing.assert_close(ours, 2 * EuclideanSimilarity()(PATTERNS, queries))


def test_no_weights_over_a_sorted_footprint_can_be_optimal_for_anisotropic_noise() -> None:
    """Sorting forgets which dimension is which: these two patterns tie for every w, and one is far more likely."""
    patterns, query = torch.eye(2, dtype=torch.float64), torch.zeros(1, 2, dtype=torch.float64)
    posterior = log_posterior(NoisyVariant([0.1, 10.0]), patterns, query).exp()
    assert float(posterior[0, 1]) > 0.98
    for weights in gaussian(50, 2):
        similarity = FootprintSimilarity(EuclideanSimilarity(), 2)
        with torch.no_grad():
            similarity.weights.copy_(weights)
        first, second = similarity(patterns, query).flatten().tolist()
        assert first == second


# --- lem:opt-masked


def test_the_masked_optimum_is_the_printed_sum_over_sorted_deltas_in_any_order() -> None:
    queries = MaskedVariant(0.5).sample(PATTERNS, 20).queries
    expected = torch.empty(20, N, dtype=torch.float64)
    for b, x in enumerate(queries.tolist()):
        for n, xi in enumerate(PATTERNS.tolist()):
            ascending = sorted(-((xi[i] - x[i]) ** 2) for i in range(D))
            expected[b, n] = sum(1.0 for value in ascending if value == 0)
    torch.testing.assert_close(optimal_for_masked()(PATTERNS, queries), expected)


def test_the_continuous_weights_suggested_for_masks_beat_the_distance_but_are_not_optimal() -> None:
    """The discussion of the paper: no continuous similarity is optimal here, and w_i = iC is a good one."""
    suggested = FootprintSimilarity(EuclideanSimilarity(), D)
    with torch.no_grad():
        suggested.weights.copy_(from_paper_weights(2.0 * D**2 * torch.arange(1, D + 1)))
    variant = MaskedVariant(0.5)
    best, continuous, distance = (
        accuracy(each, variant) for each in (optimal_for_masked(), suggested, EuclideanSimilarity())
    )
    assert best > continuous + four_standard_errors(continuous, QUERIES)
    assert continuous > distance + 2 * four_standard_errors(distance, QUERIES)


# --- lem:opt-biased


def test_the_printed_weights_for_a_bias_give_twice_the_bias_by_the_upper_right_triangle() -> None:
    bias = BIAS.double()
    printed = torch.cat([2 * bias[:1], 2 * bias[1:] - 2 * bias[:-1]])
    torch.testing.assert_close(printed @ upper_right(D), 2 * bias)
    torch.testing.assert_close(optimal_for_biased(BIAS).slope.detach().double(), 2 * bias)


def test_the_biased_optimum_is_the_printed_similarity_and_the_distance_to_the_moved_pattern() -> None:
    queries, bias = gaussian(20, D), BIAS.double()
    difference = queries[:, None] - PATTERNS
    printed = difference @ (2 * bias) - difference.square().sum(-1)
    scores = optimal_for_biased(BIAS)(PATTERNS, queries)
    torch.testing.assert_close(scores, printed)
    moved = -(difference - bias).square().sum(-1)
    torch.testing.assert_close(scores - bias.square().sum(), moved)


# --- thm:ret-dyn


@pytest.mark.parametrize(("similarity", "variant"), PROVEN, ids=repr)
def test_retrieval_under_argmax_returns_a_stored_pattern(similarity: Similarity, variant: Variant) -> None:
    queries = variant.sample(PATTERNS, 50).queries
    memory = AssociativeMemory(PATTERNS, similarity, Argmax())
    best = PATTERNS[memory.scores(queries).argmax(-1)]
    unique = memory.weights(queries).amax(-1) == 1
    torch.testing.assert_close(memory.retrieve(queries)[unique], best[unique])


def test_with_softmax_in_place_of_argmax_the_optimum_is_lost() -> None:
    """Why the theorem needs argmax: a blend of two far patterns can be nearest to a third."""
    patterns = torch.tensor([[-1.0], [0.0], [1.1]], dtype=torch.float64)
    query, variant = torch.tensor([[0.56]], dtype=torch.float64), NoisyVariant(1.0)
    hard = AssociativeMemory(patterns, EuclideanSimilarity(), Argmax()).retrieve(query)
    soft = AssociativeMemory(patterns, EuclideanSimilarity(), Softmax()).retrieve(query)
    assert correctly_retrieved(hard, query, patterns, variant).tolist() == [True]
    assert correctly_retrieved(soft, query, patterns, variant).tolist() == [False]
    assert always_correct(EuclideanSimilarity(), NoisyVariant(0.15), Softmax()) < 0.9


@pytest.mark.parametrize(
    ("similarity", "variant"),
    [(optimal_for_noisy(VARIANCE), MaskedVariant(0.5)), (optimal_for_masked(), NoisyVariant(VARIANCE))],
    ids=repr,
)
def test_an_optimum_for_one_corruption_is_poor_at_another(similarity: Similarity, variant: Variant) -> None:
    """The discussion: optimality is bought with adaptivity."""
    queries = variant.sample(PATTERNS, QUERIES).queries
    memory = AssociativeMemory(PATTERNS, similarity, Argmax())
    correct = correctly_retrieved(memory.retrieve(queries), queries, PATTERNS, variant)
    assert float(correct.double().mean()) < 0.7
