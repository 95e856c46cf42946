"""When a retrieval is right."""

from collections.abc import Callable
from inspect import unwrap

import pytest
import torch
from hypothesis import given
from torch import Tensor
from torch.testing import assert_close

import ahop
from ahop._core import blocks
from ahop.errors import InvalidValueError, UnsupportedError
from ahop.paper.criteria import nearest
from tests.strategies import Problem, problem, problems


class Echo:
    """A memory that answers with the query itself."""

    def __init__(self, patterns: Tensor) -> None:
        self._patterns = patterns

    @property
    def patterns(self) -> Tensor:
        return self._patterns

    def retrieve(self, queries: Tensor) -> Tensor:
        return queries


@given(case=problems)
def test_the_nearest_pattern_has_the_smallest_distance(case: Problem) -> None:
    distances = (case.queries[:, None] - case.patterns).square().sum(-1)
    chosen = nearest(case.patterns, case.queries)
    assert chosen.dtype == torch.long
    assert_close(distances.gather(-1, chosen[:, None]).squeeze(-1), distances.amin(-1))


@pytest.mark.parametrize("offset", [0.0, 1e3, 1e4])
def test_a_large_common_offset_changes_no_neighbor(offset: float) -> None:
    patterns = torch.randn(100, 8) + offset
    assert torch.equal(nearest(patterns, patterns), torch.arange(100))


@pytest.mark.parametrize(
    ("scale", "dtype"), [(1e-15, torch.float32), (1e15, torch.float32), (1e-30, torch.float64), (1e30, torch.float64)]
)
def test_the_scale_changes_no_neighbor(scale: float, dtype: torch.dtype) -> None:
    patterns = scale * torch.randn(100, 8, dtype=dtype)
    assert torch.equal(nearest(patterns, patterns), torch.arange(100))


def test_neighbors_in_blocks_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    case = problem(batch=7)
    whole = nearest(case.patterns, case.queries)
    monkeypatch.setattr(unwrap(blocks.blocks), "__defaults__", (1,))
    assert torch.equal(nearest(case.patterns, case.queries), whole)


def test_an_answer_within_epsilon_of_any_pattern_is_retrieved() -> None:
    patterns = torch.tensor([[0.0, 0.0], [10.0, 0.0]])
    answers = torch.tensor([[0.0, 1.0], [10.0, 3.0], [10.0, 0.0]])
    assert ahop.criteria.epsilon_retrieved(answers, patterns, 1.0).tolist() == [True, False, True]
    assert ahop.criteria.epsilon_retrieved(answers, patterns, 0.0).tolist() == [False, False, True]
    assert ahop.criteria.epsilon_retrieved(answers[:0], patterns, 1.0).shape == (0,)
    with pytest.raises(InvalidValueError, match="`epsilon` must be zero or larger"):
        ahop.criteria.epsilon_retrieved(answers, patterns, -1.0)


@given(case=problems)
def test_an_answer_is_correct_if_it_is_nearest_to_the_most_probable_pattern(case: Problem) -> None:
    variant = ahop.NoisyVariant(0.5)
    best = ahop.variants.log_posterior(variant, case.patterns, case.queries).argmax(-1)
    assert bool(ahop.criteria.correctly_retrieved(case.patterns[best], case.queries, case.patterns, variant).all())
    if len(case.patterns) > 1:
        wrong = case.patterns[(best + 1) % len(case.patterns)]
        assert not bool(ahop.criteria.correctly_retrieved(wrong, case.queries, case.patterns, variant).any())


def test_the_prior_has_a_say_in_what_is_correct() -> None:
    patterns, queries = torch.tensor([[0.0], [1.0]]), torch.tensor([[0.4]])
    log_prior = torch.tensor([0.01, 0.99]).log()
    variant = ahop.NoisyVariant(1.0)
    assert ahop.criteria.correctly_retrieved(patterns[:1], queries, patterns, variant).tolist() == [True]
    assert ahop.criteria.correctly_retrieved(patterns[:1], queries, patterns, variant, log_prior).tolist() == [False]


def test_an_evaluation_counts_hits_and_measures_errors() -> None:
    memory = Echo(torch.tensor([[0.0, 0.0], [2.0, 0.0]]))
    pairs = ahop.Pairs(torch.tensor([0, 0, 1, 1]), torch.tensor([[0.5, 0.0], [1.5, 0.0], [2.0, 1.0], [2.0, 0.0]]))
    evaluation = ahop.evaluate(memory, pairs)
    assert evaluation.accuracy == 0.75
    assert evaluation.error == pytest.approx((0.25 + 2.25 + 1.0) / 8)
    assert evaluation.queries == 4
    assert evaluation.top1 is None, "an echo does not say what weighs most"
    assert evaluation.standard_error == pytest.approx((0.75 * 0.25 / 4) ** 0.5)


def test_the_first_answer_and_the_nearest_to_the_blend_are_counted_apart() -> None:
    """Two patterns that share a query's mass can outweigh the first one together: the blend lies between them."""
    patterns = torch.tensor([[3.0, 0.0], [0.0, 0.0], [-3.0, 0.0]])
    memory = ahop.AssociativeMemory(patterns, ahop.DotSimilarity())
    pairs = ahop.Pairs(torch.tensor([0, 0]), torch.tensor([[0.1, 0.0], [9.0, 0.0]]))
    evaluation = ahop.evaluate(memory, pairs)
    assert evaluation.top1 == 1.0
    assert evaluation.accuracy == 0.5
    assert torch.equal(memory.retrieve(pairs.queries), memory.read(memory.weights(pairs.queries)))


@pytest.mark.parametrize("network", [ahop.zoo.hop, ahop.zoo.d_hop, ahop.zoo.e_hop])
@pytest.mark.parametrize("dimensions", [16, 32, 64, 100])
def test_answers_that_are_no_means_are_judged_by_where_they_point(
    network: Callable[[Tensor], ahop.AssociativeMemory], dimensions: int
) -> None:
    """Unnormalized ones are up to e^d times a pattern: too long for a distance to have digits left."""
    patterns = 2.0 * torch.randint(0, 2, (50, dimensions), generator=torch.Generator().manual_seed(0)) - 1
    evaluation = ahop.evaluate(network(patterns), ahop.NoisyVariant(1e-6).sample(patterns, 200, seed=1))
    assert evaluation.error < 1.1
    if network is ahop.zoo.e_hop:
        assert evaluation.accuracy == evaluation.top1 == 1.0
        assert evaluation.error < (0.2 if dimensions == 16 else 1e-3)


def test_a_query_that_no_pattern_answers_has_an_evaluation() -> None:
    pairs = ahop.Pairs(torch.tensor([0]), torch.zeros(1, 3))
    assert ahop.evaluate(ahop.zoo.hop(torch.ones(1, 3)), pairs).error == 1.0


def test_what_was_not_observed_is_left_out_of_every_judgement() -> None:
    patterns = torch.tensor([[0.0, torch.nan, 0.0, 0.0], [2.0, 2.0, torch.nan, 2.0]])
    answers = torch.tensor([[0.5, 9.0, 0.5, 0.5], [1.5, 2.0, 9.0, torch.nan], [torch.nan, 7.0, torch.nan, torch.nan]])
    assert nearest(patterns, answers[:2]).tolist() == [0, 1]
    evaluation = ahop.evaluate(Echo(patterns), ahop.Pairs(torch.tensor([0, 1]), answers[:2]))
    assert evaluation.accuracy == 1.0
    assert evaluation.error == pytest.approx(4 * 0.25 / 5)
    # Three dimensions of four are shared, and the fourth counts as their average: a distance of 1 in all.
    assert ahop.criteria.epsilon_retrieved(answers[:1], patterns, 1.0).tolist() == [True]
    assert ahop.criteria.epsilon_retrieved(answers[:1], patterns, 0.99).tolist() == [False]
    assert ahop.criteria.epsilon_retrieved(answers[2:], patterns[:1], 100.0).tolist() == [False]


def test_an_evaluation_of_nothing_is_refused() -> None:
    nothing = ahop.Pairs(torch.zeros(0).long(), torch.zeros(0, 2))
    with pytest.raises(InvalidValueError, match="`pairs` must hold at least one pair; got none"):
        ahop.evaluate(Echo(torch.eye(2)), nothing)


def test_an_evaluation_leaves_no_gradient_behind() -> None:
    memory = ahop.AssociativeMemory(problem().patterns)
    ahop.criteria.retrieval_accuracy(memory, ahop.NoisyVariant(0.1), queries=10)
    assert all(parameter.grad is None for parameter in memory.parameters())


def test_an_accuracy_is_that_of_the_pairs_of_its_seed() -> None:
    memory, variant = ahop.AssociativeMemory(problem(count=30).patterns), ahop.NoisyVariant(0.5)
    pairs = variant.sample(memory.patterns, 200, seed=7)
    assert ahop.criteria.retrieval_accuracy(memory, variant, 200, seed=7) == ahop.evaluate(memory, pairs).accuracy


@pytest.mark.parametrize(
    "variant", [ahop.NoisyVariant(0.3), ahop.MixedVariant(0.4, 0.4, 0.4), ahop.variants.MaskedVariant(0.6)], ids=repr
)
def test_the_bayes_accuracy_is_that_of_the_likelihood_and_no_memory_does_better(
    variant: ahop.NoisyVariant | ahop.MixedVariant | ahop.variants.MaskedVariant,
) -> None:
    patterns = 2 * torch.rand(100, 6) - 1
    ceiling = ahop.criteria.bayes_accuracy(patterns, variant, queries=500)
    oracle = ahop.AssociativeMemory(patterns, ahop.likelihood.LikelihoodSimilarity(variant), ahop.separations.Argmax())
    assert ahop.criteria.retrieval_accuracy(oracle, variant, queries=500) == pytest.approx(ceiling, abs=0.004)
    for memory in (ahop.zoo.m_hop(patterns, beta=10.0), ahop.zoo.u_hop(patterns), ahop.zoo.a_hop(patterns)):
        assert ahop.criteria.retrieval_accuracy(memory, variant, queries=500) <= ceiling + 0.02


def test_the_bayes_accuracy_in_blocks_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    patterns, variant = problem(count=20).patterns, ahop.NoisyVariant(0.5)
    whole = ahop.criteria.bayes_accuracy(patterns.numpy(), variant, queries=50)
    monkeypatch.setattr(unwrap(blocks.blocks), "__defaults__", (1,))
    assert ahop.criteria.bayes_accuracy(patterns, variant, queries=50) == whole


def test_a_ceiling_that_is_not_known_is_not_made_up() -> None:
    variant = ahop.variants.ComposedVariant([ahop.NoisyVariant(0.1), ahop.variants.MaskedVariant(0.1)])
    with pytest.raises(UnsupportedError, match="no closed-form likelihood"):
        ahop.criteria.bayes_accuracy(problem().patterns, variant)
