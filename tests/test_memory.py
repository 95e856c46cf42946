"""Stored patterns, and how they answer."""

from inspect import unwrap
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.testing import assert_close

import ahop
from ahop._core import blocks
from ahop.errors import InvalidTypeError, InvalidValueError, ShapeError, UnsupportedError
from ahop.memory import scoring
from ahop.separations.base import Separation
from tests.catalogue import MIXES_DIMENSIONS, SEPARATIONS, SIMILARITIES, ZOO, shaken
from tests.strategies import FEW, Problem, gapped_problems, huge_arrays, problem, problems, with_gaps

every_network = pytest.mark.parametrize("name", ZOO)
both_dtypes = pytest.mark.parametrize("dtype", [torch.float32, torch.float64])


def ranked(memory: ahop.AssociativeMemory, queries: Tensor) -> tuple[Tensor, Tensor]:
    """Order and posterior by brute force, one query at a time."""
    separation = memory.separation if memory.separation.is_distribution else ahop.Softmax()
    scores = [memory.similarity(memory.modulation(memory.patterns), query[None])[0] for query in queries]
    order = torch.stack([torch.argsort(row, descending=True, stable=True) for row in scores])
    return order, torch.stack([separation(row[None])[0] for row in scores])


@every_network
@settings(max_examples=FEW)
@given(case=problems)
def test_recall_is_a_search_through_all_patterns(name: str, case: Problem) -> None:
    memory = ZOO[name](case.patterns)
    if not len(case.queries):
        return
    order, posterior = ranked(memory, case.queries)
    recall = memory.recall(case.queries, k=len(memory))
    assert_close(recall.posterior, posterior.gather(-1, recall.indices))
    assert_close(posterior.gather(-1, recall.indices), posterior.gather(-1, order))
    assert torch.equal(recall.patterns, case.patterns[recall.indices])
    assert_close(memory.recall(case.queries).posterior, recall.posterior[:, :1])


@every_network
@settings(max_examples=FEW)
@given(case=problems)
def test_an_answer_is_the_patterns_by_their_weights(name: str, case: Problem) -> None:
    memory = ZOO[name](case.patterns)
    answers = memory(case.queries)
    assert answers.shape == case.queries.shape
    assert_close(answers, memory.weights(case.queries) @ case.patterns)
    assert_close(memory.weights(case.queries), memory.separation(memory.scores(case.queries)))


@every_network
@both_dtypes
@given(case=problems)
def test_the_posterior_over_all_patterns_sums_to_one_best_first(name: str, dtype: torch.dtype, case: Problem) -> None:
    memory = ZOO[name](case.patterns.to(dtype))
    posterior = memory.recall(case.queries, k=len(memory)).posterior
    assert posterior.dtype == dtype
    assert_close(posterior.sum(-1), torch.ones(len(case.queries), dtype=dtype))
    assert bool((posterior[:, :-1] >= posterior[:, 1:]).all())


@every_network
@both_dtypes
@given(patterns=huge_arrays(4, 2), queries=huge_arrays(3, 2))
def test_huge_values_have_a_finite_posterior_that_sums_to_one(
    name: str, dtype: torch.dtype, patterns: Tensor, queries: Tensor
) -> None:
    memory = ZOO[name](patterns.to(dtype))
    recall = memory.recall(queries.to(dtype), k=4)
    assert bool(torch.isfinite(recall.posterior).all())
    assert_close(recall.posterior.sum(-1), torch.ones(3, dtype=dtype))
    if memory.separation.is_distribution:
        assert bool(torch.isfinite(memory.retrieve(queries.to(dtype))).all())


def test_queries_in_double_precision_may_be_larger_than_single_precision_can_say() -> None:
    memory = ahop.AssociativeMemory(torch.eye(3))
    recall = memory.recall(np.array([[1e300, 0.0, 0.0], [0.0, -1e300, 1e300]]), k=3)
    assert np.isfinite(recall.posterior).all()


@every_network
def test_arrays_answer_arrays_and_tensors_answer_tensors(name: str) -> None:
    case = problem()
    memory = ZOO[name](case.patterns)
    of_tensors, of_arrays = memory.recall(case.queries, k=2), memory.recall(case.queries.numpy(), k=2)
    for field in ("indices", "posterior", "patterns"):
        tensor, array = getattr(of_tensors, field), getattr(of_arrays, field)
        assert isinstance(tensor, Tensor)
        assert isinstance(array, np.ndarray)
        assert torch.equal(tensor, torch.from_numpy(array))
    answer = memory.retrieve(case.queries.numpy())
    assert isinstance(answer, np.ndarray)
    assert torch.equal(torch.from_numpy(answer), memory.retrieve(case.queries).detach())


@every_network
def test_blocks_of_any_size_give_one_answer(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    case = problem(count=7, dimensions=5, batch=6)
    memory = ZOO[name](case.patterns)
    whole, recalled = memory.retrieve(case.queries), memory.recall(case.queries, k=3)
    for budget in (1, 500):
        monkeypatch.setattr(unwrap(blocks.blocks), "__defaults__", (budget,))
        assert len(list(blocks.blocks(6, 100))) > 1
        assert_close(memory.retrieve(case.queries), whole)
        in_blocks = memory.recall(case.queries, k=3)
        assert torch.equal(in_blocks.indices, recalled.indices)
        assert_close(in_blocks.posterior, recalled.posterior)


@pytest.mark.parametrize("name", SIMILARITIES)
def test_scores_in_blocks_of_any_size_are_the_same(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    case = problem(count=7, dimensions=5, batch=6)
    similarity = SIMILARITIES[name](5, 7)
    whole = similarity(case.patterns, case.queries)
    monkeypatch.setattr(unwrap(blocks.blocks), "__defaults__", (1,))
    monkeypatch.setattr("ahop._core.kernels.rank_weighting.CACHE_BYTES", 200)
    monkeypatch.setattr("ahop.variants.mixed.CACHE_BYTES", 200)
    assert_close(similarity(case.patterns, case.queries), whole)


def test_blocks_cover_everything_once() -> None:
    for count in (0, 1, 7, 100):
        for each in (0, 1, 30, 10**9):
            slices = list(blocks.blocks(count, each, 100))
            assert [row for part in slices for row in range(count)[part]] == list(range(count))
            assert all(after.start == before.stop for before, after in pairwise(slices))
            assert all(1 <= part.stop - part.start <= max(1, 100 // max(1, each)) for part in slices)


@every_network
def test_the_order_of_the_patterns_does_not_matter(name: str) -> None:
    case, order = problem(), torch.tensor([3, 0, 4, 1, 2])
    if name in ("a_hop", "k2_hop", "k_hop"):
        memory, other = ZOO[name](case.patterns), ZOO[name](case.patterns[order])
        other.load_state_dict({**memory.state_dict(), "patterns": case.patterns[order]})
    else:
        memory, other = ZOO[name](case.patterns), ZOO[name](case.patterns[order])
    assert_close(memory.retrieve(case.queries), other.retrieve(case.queries))
    assert torch.equal(order[other.recall(case.queries).indices], memory.recall(case.queries).indices)


@every_network
def test_a_query_is_answered_the_same_in_any_company(name: str) -> None:
    case = problem(batch=5)
    memory = ZOO[name](case.patterns)
    assert_close(memory.retrieve(case.queries), torch.cat([memory.retrieve(query[None]) for query in case.queries]))


@every_network
def test_a_pattern_stored_twice_shares_its_mass_equally(name: str) -> None:
    case = problem()
    rows = torch.tensor([0, 1, 2, 3, 4, 2])
    weights = ZOO[name](case.patterns[rows]).weights(case.queries)
    assert_close(weights[:, 5], weights[:, 2])


@every_network
@pytest.mark.parametrize(("count", "dimensions", "batch"), [(1, 1, 1), (1, 3, 2), (4, 1, 2), (4, 3, 0)])
def test_the_smallest_sizes_work(name: str, count: int, dimensions: int, batch: int) -> None:
    case = problem(count, dimensions, batch)
    memory = ZOO[name](case.patterns)
    recall = memory.recall(case.queries, k=2)
    assert recall.indices.shape == recall.posterior.shape == (batch, min(2, count))
    assert recall.patterns.shape == (batch, min(2, count), dimensions)
    assert memory.retrieve(case.queries).shape == (batch, dimensions)
    if memory.energy_function is not None:
        assert memory.energy(case.queries).shape == (batch,)


def test_more_answers_than_patterns_are_all_of_them() -> None:
    case = problem()
    recall = ahop.AssociativeMemory(case.patterns).recall(case.queries, k=100)
    assert torch.equal(recall.indices.sort(-1).values, torch.arange(5).expand(3, 5))


def test_a_memory_has_the_paper_s_defaults() -> None:
    memory = ahop.AssociativeMemory(torch.eye(3))
    assert repr(memory.similarity) == repr(ahop.AdaptiveSimilarity(3))
    assert repr(memory.separation) == "Softmax(beta=1.0)"
    assert len(memory) == 3
    assert "patterns=(3, 3)" in repr(memory)


def test_recall_keeps_no_gradient_and_retrieve_does() -> None:
    case = problem()
    memory = ahop.AssociativeMemory(case.patterns)
    assert not memory.recall(case.queries.requires_grad_()).posterior.requires_grad
    assert memory.retrieve(case.queries).requires_grad


def test_a_prior_is_added_to_the_scores() -> None:
    case, log_prior = problem(), torch.tensor([0.1, 0.2, 0.3, 0.3, 0.1]).log()
    plain = ahop.AssociativeMemory(case.patterns)
    with_prior = ahop.AssociativeMemory(case.patterns, log_prior=log_prior.numpy())
    assert_close(with_prior.scores(case.queries), plain.scores(case.queries) + log_prior.double())


@every_network
def test_the_energy_is_the_confinement_less_the_potential(name: str) -> None:
    case = problem()
    memory = ZOO[name](case.patterns)
    if memory.energy_function is None:
        with pytest.raises(UnsupportedError, match="This network has no energy"):
            memory.energy(case.queries)
        return
    confinement = memory.energy_function.confinement(case.queries, memory.modulation)
    assert_close(memory.energy(case.queries), confinement - memory.separation.potential(memory.scores(case.queries)))


@pytest.mark.parametrize("name", ["dot", "adaptive", "isolated"])
def test_patterns_can_be_added(name: str) -> None:
    case, more = problem(), problem(seed=1).patterns[:3]
    memory = ahop.AssociativeMemory(case.patterns, SIMILARITIES[name](4, 5))
    before = memory.scores(case.queries)
    assert torch.equal(memory.add(more.numpy()), torch.tensor([5, 6, 7]))
    assert len(memory) == 8
    assert_close(memory.scores(case.queries)[:, :5], before)
    assert torch.equal(memory.patterns, torch.cat([case.patterns, more]))
    assert memory.add(more[:0]).shape == (0,)
    assert len(memory) == 8


@pytest.mark.parametrize("name", ["dot", "adaptive", "isolated"])
@pytest.mark.parametrize("kind", [torch.tensor, np.array, list])
def test_patterns_can_be_removed(name: str, kind: type[list[int]], unchecked: None) -> None:
    case = problem()
    memory = ahop.AssociativeMemory(case.patterns, SIMILARITIES[name](4, 5))
    before = memory.scores(case.queries)
    memory.remove(kind([3, 0, 3]))
    assert_close(memory.scores(case.queries), before[:, [1, 2, 4]])
    memory.remove(kind([]))
    assert len(memory) == 3


@pytest.mark.parametrize("separation", [each for each in SEPARATIONS if not each.is_distribution], ids=repr)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_prior_counts_once_beside_a_separation_that_is_no_distribution(
    separation: Separation, dtype: torch.dtype
) -> None:
    case, prior = problem(dtype=dtype), torch.tensor([0.1, 0.2, 0.3, 0.3, 0.1], dtype=dtype)
    plain = ahop.AssociativeMemory(case.patterns, separation=separation)
    weighed = ahop.AssociativeMemory(case.patterns, separation=separation, log_prior=prior.log())
    answer = plain.recall(case.queries, k=5)
    expected = torch.zeros_like(answer.posterior).scatter_(1, answer.indices, answer.posterior) * prior
    expected /= expected.sum(-1, keepdim=True)
    found = weighed.recall(case.queries, k=5)
    assert_close(found.posterior, expected.gather(1, found.indices))
    explained = weighed.explain(case.queries[0])
    assert explained.posterior == pytest.approx(float(found.posterior[0, 0]), rel=1e-4)
    assert explained.log_odds == pytest.approx(float((found.posterior[0, 0] / found.posterior[0, 1]).log()), rel=1e-3)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_floor_is_for_patterns_that_a_prior_does_not_rule_out(dtype: torch.dtype) -> None:
    """Also where those that are left share nothing with the query."""
    patterns = torch.tensor([[0.0], [torch.nan], [torch.nan]], dtype=dtype)
    log_prior = torch.tensor([-torch.inf, 0.0, 0.0], dtype=dtype)
    separation = ahop.Softmax(5.0, floor=0.3)
    memory = ahop.AssociativeMemory(patterns, ahop.similarities.CosineSimilarity(), separation, log_prior=log_prior)
    query = torch.ones(1, 1, dtype=dtype)
    assert_close(memory.recall(query, k=3).posterior, torch.tensor([[0.5, 0.5, 0.0]], dtype=dtype))
    assert memory.explain(query).posterior == pytest.approx(0.5)
    assert_close(separation(torch.tensor([[-torch.inf, -1e38, 0.0]])), torch.tensor([[0.0, 0.15, 0.85]]))


def test_removing_takes_the_prior_along_and_adding_refuses() -> None:
    log_prior = torch.tensor([0.1, 0.2, 0.3, 0.3, 0.1]).log()
    memory = ahop.AssociativeMemory(problem().patterns, log_prior=log_prior)
    memory.remove(torch.tensor([1]))
    assert memory.log_prior is not None
    assert_close(memory.log_prior, log_prior.double()[[0, 2, 3, 4]])
    with pytest.raises(UnsupportedError, match="`log_prior` cannot grow: build it anew"):
        memory.add(problem().patterns)


def test_adding_and_removing_leave_given_arrays_and_copies_alone() -> None:
    patterns = np.eye(3, dtype=np.float32)
    memory = ahop.AssociativeMemory(patterns)
    other = memory.copy()
    memory.add(np.ones((1, 3), dtype=np.float32))
    memory.remove(np.array([0]))
    assert np.array_equal(patterns, np.eye(3))
    assert torch.equal(other.patterns, torch.eye(3))


@pytest.mark.parametrize(
    ("indices", "error", "message"),
    [
        (torch.tensor([5]), InvalidValueError, r"`indices` must lie in 0\.\.4, as 5 patterns are stored; got 5\.\.5"),
        (torch.tensor([-1]), InvalidValueError, r"got -1\.\.-1"),
        (torch.arange(5), InvalidValueError, "`indices` names every stored pattern; a memory keeps at least one"),
        (torch.tensor([1.7]), InvalidTypeError, r"`indices` must be whole numbers.*got dtype float32"),
        (torch.tensor([True, False, False, False, False]), InvalidTypeError, r"got dtype bool.*`nonzero`"),
    ],
)
def test_rows_that_cannot_be_removed_are_refused(indices: Tensor, error: type[Exception], message: str) -> None:
    memory = ahop.AssociativeMemory(problem().patterns)
    with pytest.raises(error, match=message):
        memory.remove(indices)
    assert len(memory) == 5


def test_patterns_that_cannot_be_added_are_refused() -> None:
    memory = ahop.AssociativeMemory(problem().patterns)
    with pytest.raises(ShapeError, match=r"`patterns` must have shape \(b, 4\).*got shape \(1, 3\)"):
        memory.add(torch.zeros(1, 3))
    with pytest.raises(ShapeError, match=r"For a single pattern pass `pattern\[None\]`"):
        memory.add(torch.zeros(4))
    with pytest.raises(InvalidValueError, match="`patterns` must be finite"):
        memory.add(torch.full((1, 4), torch.inf))


@pytest.mark.parametrize("method", ["recall", "retrieve", "scores", "weights", "energy"])
def test_every_door_checks_its_queries(method: str) -> None:
    memory = ahop.AssociativeMemory(problem().patterns)
    with pytest.raises(ShapeError, match=r"`queries` must have two axes.*pass `query\[None\]`"):
        getattr(memory, method)(torch.zeros(4))
    with pytest.raises(ShapeError, match=r"`queries` must have shape \(b, 4\)"):
        getattr(memory, method)(torch.zeros(1, 5))
    with pytest.raises(InvalidValueError, match="`queries` must be finite"):
        getattr(memory, method)(torch.full((1, 4), torch.inf))


# What was not observed.


def read_by_hand(memory: ahop.AssociativeMemory, weights: Tensor) -> Tensor:
    """Each coordinate of each answer from the patterns that were observed there."""
    answers = torch.full((len(weights), memory.patterns.shape[1]), torch.nan, dtype=weights.dtype)
    for b, row in enumerate(weights):
        for i, column in enumerate(memory.patterns.mT):
            seen = ~column.isnan()
            total = (row[seen] * column[seen]).sum()
            if memory.separation.is_distribution and bool(row[seen].any()):
                answers[b, i] = total / row[seen].sum()
            elif not memory.separation.is_distribution and bool(seen.any()):
                answers[b, i] = total
    return answers


@pytest.mark.parametrize("name", [name for name in ZOO if name not in MIXES_DIMENSIONS])
@settings(max_examples=FEW)
@given(case=gapped_problems)
def test_an_answer_is_read_from_the_patterns_that_were_observed(name: str, case: Problem) -> None:
    memory = ZOO[name](case.patterns)
    weights = memory.weights(case.queries).detach()
    assert bool(torch.isfinite(weights).all())
    assert_close(memory.retrieve(case.queries).detach(), read_by_hand(memory, weights), equal_nan=True)


@every_network
@settings(max_examples=FEW)
@given(case=gapped_problems)
def test_complete_patterns_answer_queries_with_gaps_without_gaps(name: str, case: Problem) -> None:
    memory = ZOO[name](torch.where(case.patterns.isnan(), 0.5, case.patterns))
    assert bool(torch.isfinite(memory.retrieve(case.queries)).all())
    if memory.energy_function is not None:
        assert bool(torch.isfinite(memory.energy(case.queries)).all())


@pytest.mark.parametrize("name", [name for name in ZOO if name not in MIXES_DIMENSIONS])
@both_dtypes
@given(case=gapped_problems)
def test_a_posterior_knows_gaps(name: str, dtype: torch.dtype, case: Problem) -> None:
    memory = ZOO[name](case.patterns.to(dtype))
    recall = memory.recall(case.queries.to(dtype), k=len(memory))
    assert_close(recall.posterior.sum(-1), torch.ones(len(case.queries), dtype=dtype))
    assert bool((recall.posterior[:, :-1] >= recall.posterior[:, 1:]).all())
    nothing = case.queries.isnan().all(-1)
    assert_close(recall.posterior[nothing], torch.full_like(recall.posterior, 1 / len(memory))[nothing])
    assert_close(recall.patterns, memory.patterns[recall.indices], rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("name", sorted(MIXES_DIMENSIONS))
def test_a_network_that_mixes_dimensions_refuses_patterns_with_gaps(name: str) -> None:
    memory = ZOO[name](with_gaps(problem()).patterns)
    with pytest.raises(
        UnsupportedError, match=r"A kernel mixes all dimensions.*\(NaN\)\. Fill them first, or use `Unmod"
    ):
        memory.recall(problem().queries)


@pytest.mark.parametrize("name", ["a_hop", "u_hop"])
def test_a_stored_pattern_is_recalled_from_the_part_of_it_that_was_observed(name: str) -> None:
    patterns = torch.randn(40, 12)
    patterns[torch.rand(40, 12) < 0.2] = torch.nan
    queries = patterns.masked_fill(torch.rand(40, 12) < 0.3, torch.nan)
    memory = (
        ahop.zoo.a_hop(patterns, [ahop.EuclideanSimilarity()]) if name == "a_hop" else ZOO[name](patterns)
    ).double()
    recall = memory.recall(queries.numpy())
    assert recall.indices.squeeze(-1).tolist() == list(range(40))


def test_a_sharp_memory_answers_with_the_pattern_itself_gaps_and_all() -> None:
    patterns = torch.tensor([[1.0, torch.nan, 3.0], [-1.0, 2.0, torch.nan]])
    memory = ahop.AssociativeMemory(patterns, ahop.EuclideanSimilarity(), ahop.separations.Argmax())
    queries = torch.tensor([[1.0, 5.0, torch.nan], [torch.nan, 2.0, 9.0], [torch.nan, torch.nan, torch.nan]])
    expected = torch.cat([patterns, torch.tensor([[0.0, 2.0, 3.0]])])
    assert_close(memory.retrieve(queries), expected, equal_nan=True)
    assert_close(memory.retrieve(queries.numpy()), expected.numpy(), equal_nan=True)


def test_answers_stay_right_as_patterns_with_gaps_come_and_go() -> None:
    case = problem()
    memory = ZOO["m_hop"](case.patterns)
    gappy = case.patterns[:2].clone()
    gappy[:, 0] = torch.nan
    rows = memory.add(gappy.numpy())
    for other in (memory, memory.copy()):
        answers = other.retrieve(case.queries)
        assert bool(torch.isfinite(answers).all())
        assert_close(answers, read_by_hand(memory, memory.weights(case.queries)))
    memory.remove(rows)
    assert torch.equal(memory.retrieve(case.queries), ZOO["m_hop"](case.patterns).retrieve(case.queries))
    memory.remove(torch.arange(4))
    memory.add(gappy)
    memory.remove(torch.tensor([0]))
    assert bool(memory.retrieve(case.queries)[:, 0].isnan().all())


@pytest.mark.parametrize("name", [name for name in ZOO if name != "u_hop"])  # all weight to the nearest has no slope
def test_gradients_through_gaps_are_finite(name: str) -> None:
    case = with_gaps(problem(count=6, batch=5))
    memory = ZOO[name](problem(count=6).patterns if name in MIXES_DIMENSIONS else case.patterns)
    answers = memory.retrieve(case.queries.requires_grad_())
    (slope,) = torch.autograd.grad(answers.nansum(), case.queries)
    assert bool(torch.isfinite(slope).all())
    assert not bool(slope[case.queries.isnan()].any())


def test_a_query_that_nothing_is_known_about_gets_the_prior() -> None:
    log_prior = torch.tensor([0.1, 0.2, 0.3, 0.3, 0.1]).log()
    memory = ahop.AssociativeMemory(problem(dtype=torch.float32).patterns, log_prior=log_prior)
    weights = memory.weights(torch.tensor([[torch.nan] * 4, [torch.nan, 0.0, 1.0, 0.0]]))
    assert_close(weights[0], log_prior.exp())
    assert not torch.allclose(weights[1], log_prior.exp())


def test_k_must_be_at_least_one() -> None:
    with pytest.raises(InvalidValueError, match="`k` must be a whole number of at least 1; got 0"):
        ahop.AssociativeMemory(torch.eye(2)).recall(torch.eye(2), k=0)


@every_network
def test_a_copy_shares_the_patterns_and_nothing_else(name: str) -> None:
    case = problem()
    memory = ZOO[name](case.patterns)
    before = memory.scores(case.queries)
    copied = memory.copy()
    assert copied.patterns.data_ptr() == memory.patterns.data_ptr()
    assert torch.equal(copied.scores(case.queries), before)
    shaken(copied, seed=9)
    assert torch.equal(memory.scores(case.queries), before)
    if list(memory.parameters()):
        assert not torch.equal(copied.scores(case.queries), before)


def test_a_copy_has_a_prior_of_its_own() -> None:
    memory = ahop.AssociativeMemory(problem().patterns, log_prior=torch.zeros(5))
    copied = memory.copy()
    assert copied.log_prior is not None
    copied.log_prior.fill_(1)
    assert memory.log_prior is not None
    assert not bool(memory.log_prior.any())


# --- the best of many, block by block


@every_network
@given(case=problems, k=st.integers(1, 9))
def test_a_scan_in_blocks_finds_what_all_scores_at_once_show(name: str, case: Problem, k: int) -> None:
    memory = ZOO[name](case.patterns)
    whole = memory.recall(case.queries, k=k)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scoring, "BLOCK_BYTES", 1)
        patch.setattr("ahop.memory.scoring.COLUMNS_A_ROW", 0)
        parts = memory.recall(case.queries, k=k)
    assert_close(parts.posterior, whole.posterior)
    scores = memory.scores(case.queries)
    assert_close(scores.gather(1, parts.indices), scores.gather(1, whole.indices))


def test_of_equals_the_first_is_recalled_in_blocks_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scoring, "BLOCK_BYTES", 1)
    monkeypatch.setattr("ahop.memory.scoring.COLUMNS_A_ROW", 0)
    memory = ahop.AssociativeMemory(torch.ones(7, 3))
    recall = memory.recall(torch.ones(1, 3), k=4)
    assert recall.indices.tolist() == [[0, 1, 2, 3]]
    assert_close(recall.posterior, torch.full((1, 4), 1 / 7))


def test_the_last_pattern_that_can_be_an_origin_is_not_removed() -> None:
    memory = ahop.AssociativeMemory(torch.eye(2), ahop.EuclideanSimilarity(), log_prior=torch.tensor([-torch.inf, 0.0]))
    with pytest.raises(InvalidValueError, match="prior"):
        memory.remove([1])


def test_numbers_beyond_double_precision_have_finite_scores() -> None:
    stored = torch.tensor([[0.0, 1e300], [0.6, -1e30]], dtype=torch.float64)
    memory = ahop.AssociativeMemory(stored, ahop.EuclideanSimilarity(), ahop.separations.Sparsemax(2.0))
    found = memory.recall(torch.zeros(1, 2, dtype=torch.float64), 2)
    assert bool(found.posterior.isfinite().all())


def test_a_model_takes_the_place_of_all_four_ingredients() -> None:
    first = ahop.AssociativeMemory(torch.eye(3), ahop.EuclideanSimilarity(), ahop.Softmax(beta=4.0))
    other = ahop.AssociativeMemory(torch.eye(3) + 1, model=first.model)
    assert other.model is first.model
    for parts in ({"similarity": ahop.EuclideanSimilarity()}, {"separation": ahop.Softmax()}, {"energy": None}):
        with pytest.raises(InvalidTypeError, match="brings its own"):
            ahop.AssociativeMemory(torch.eye(3), model=first.model, **parts)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_memory_says_that_there_is_no_gpu_and_stays_as_it_was() -> None:
    memory = ahop.AssociativeMemory(torch.rand(3, 2))
    with pytest.raises(UnsupportedError, match="no GPU"):
        memory.to("cuda")
    with pytest.raises(UnsupportedError, match="no GPU"):
        memory.cuda()
    assert memory.to(torch.float64).patterns.dtype == torch.float64
    assert memory.patterns.device.type == "cpu"
