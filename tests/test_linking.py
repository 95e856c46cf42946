"""Whole tables decide together: against all matchings of small ones, and against exact posteriors."""

from functools import cache
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Generator, Tensor
from torch.testing import assert_close

import ahop
from ahop.errors import InvalidTypeError, InvalidValueError, UnsupportedError
from ahop.operate.linking.assignment import assign
from ahop.operate.linking.edges import Edges
from ahop.operate.linking.propagation import Beliefs, propagate, share_alone
from tests.strategies import FEW, seeds

pytest.importorskip("scipy")
from scipy.optimize import linear_sum_assignment

pandas = pytest.importorskip("pandas")
polars = pytest.importorskip("polars")


def edges_of(shares: Tensor, log_odds: Tensor, rest: Tensor | None = None) -> Edges:
    """All pairs of small tables, shares (b, n)."""
    right, left = shares.nonzero(as_tuple=True)
    rest = shares.new_zeros(len(shares)) if rest is None else rest
    return Edges(left, right, shares[right, left], rest, log_odds, shares.shape[1])


def drawn(right: int, left: int, seed: int, sharpness: float = 2.0) -> Edges:
    generator = Generator().manual_seed(seed)
    scores = sharpness * torch.randn(right, left, generator=generator, dtype=torch.float64)
    return edges_of(scores.softmax(-1), 2 * torch.randn(right, generator=generator, dtype=torch.float64))


def enumerated(edges: Edges, activity: float) -> tuple[Tensor, Tensor]:
    """The exact probability of each pair, (b, n), and of having none, (b,), from all matchings."""
    count = len(edges.rest)
    weights = torch.zeros(count, edges.rows, dtype=torch.float64)
    weights[edges.right, edges.left] = activity * edges.share * edges.log_odds.exp()[edges.right]
    pairs, alone, total = torch.zeros_like(weights), torch.zeros(count, dtype=torch.float64), 0.0
    for partners in product(range(-1, edges.rows), repeat=count):
        taken = [partner for partner in partners if partner >= 0]
        if len(set(taken)) < len(taken):
            continue
        weight = float(np.prod([weights[row, partner] for row, partner in enumerate(partners) if partner >= 0]))
        total += weight
        for row, partner in enumerate(partners):
            if partner < 0:
                alone[row] += weight
            else:
                pairs[row, partner] += weight
    return pairs / total, alone / total


def as_matrix(edges: Edges, values: Tensor) -> Tensor:
    found = torch.zeros(len(edges.rest), edges.rows, dtype=torch.float64)
    found[edges.right, edges.left] = values
    return found


@pytest.mark.parametrize(("right", "left"), [(1, 3), (2, 2), (3, 3), (2, 4), (4, 2), (4, 4)])
def test_beliefs_are_close_to_the_exact_probabilities_of_all_matchings(right: int, left: int) -> None:
    """On average: a small circle of rows that are nearly tied, where beliefs go round, may be off by more."""
    errors, alone_errors = [], []
    for seed in range(40):
        edges = drawn(right, left, seed)
        beliefs = propagate(edges)
        pairs, alone = enumerated(edges, beliefs.activity)
        errors.append(float((as_matrix(edges, beliefs.pairs) - pairs).abs().mean()))
        alone_errors.append(float((beliefs.right_alone - alone).abs().mean()))
    assert sum(errors) / len(errors) < 0.01
    assert sum(alone_errors) / len(alone_errors) < 0.01


@given(seeds, st.integers(1, 5))
@settings(max_examples=FEW, deadline=None)
def test_beliefs_are_exact_where_candidates_form_a_tree(seed: int, length: int) -> None:
    """A chain: each right row stands between two left rows."""
    generator = Generator().manual_seed(seed)
    shares = torch.zeros(length, length + 1, dtype=torch.float64)
    for row in range(length):
        first = 0.05 + 0.9 * torch.rand(1, generator=generator, dtype=torch.float64)
        shares[row, row], shares[row, row + 1] = first, 1 - first
    edges = edges_of(shares, torch.randn(length, generator=generator, dtype=torch.float64))
    beliefs = propagate(edges, unmatched=0.3)
    pairs, alone = enumerated(edges, beliefs.activity)
    assert_close(as_matrix(edges, beliefs.pairs), pairs, atol=1e-4, rtol=0)
    assert_close(beliefs.right_alone, alone, atol=1e-4, rtol=0)
    assert_close(beliefs.left_alone, 1 - pairs.sum(0), atol=1e-4, rtol=0)


@pytest.mark.parametrize("unmatched", [0.0, 0.05, 0.2, 0.6])
def test_rows_without_a_partner_are_counted_also_where_tables_are_as_long_as_each_other(unmatched: float) -> None:
    """What a row shows is drawn from one normal law if it has an origin and from another if not: odds of known form."""
    generator, count = Generator().manual_seed(0), 1000
    is_alone = torch.arange(count) < unmatched * count
    shown = torch.randn(count, generator=generator, dtype=torch.float64) + 0.6 * torch.where(is_alone, -1, 1)
    looks_like = torch.arange(count).where(~is_alone, torch.randint(count, (count,), generator=generator))
    edges = edges_of(0.6 * torch.nn.functional.one_hot(looks_like, count).double(), 1.2 * shown)
    assert share_alone(edges.log_odds) == pytest.approx(unmatched, abs=0.04)
    assert unmatched / 3 <= float(propagate(edges).right_alone.mean()) <= unmatched + 0.06


@given(st.integers(1, 12), st.integers(1, 12), seeds)
@settings(max_examples=FEW, deadline=None)
def test_the_assignment_is_the_best_one(right: int, left: int, seed: int) -> None:
    """Against the solver of scipy for dense costs, with a column for each right row that stays alone."""
    edges = drawn(right, left, seed)
    beliefs = propagate(edges)
    chosen = assign(edges, beliefs)
    assert len(set(edges.left[chosen].tolist())) == len(edges.left[chosen]) == len(set(edges.right[chosen].tolist()))
    alone = torch.diag(beliefs.right_alone) - 10 * (1 - torch.eye(right, dtype=torch.float64))
    gain = torch.cat([as_matrix(edges, beliefs.pairs), alone], dim=1)
    rows, columns = linear_sum_assignment(gain.numpy(), maximize=True)
    linked = torch.zeros(right, dtype=torch.bool).index_fill_(0, edges.right[chosen], True)
    ours = float(beliefs.pairs[chosen].sum() + beliefs.right_alone[~linked].sum())
    assert ours == pytest.approx(float(gain[rows, columns].sum()), abs=1e-3)


def test_sure_pairs_that_claim_one_row_are_left_to_the_solver() -> None:
    """Beliefs that have not settled may promise a left row twice."""
    edges = edges_of(torch.tensor([[0.9, 0.1], [0.8, 0.2]], dtype=torch.float64), torch.zeros(2, dtype=torch.float64))
    zeros = torch.zeros(2, dtype=torch.float64)
    chosen = assign(edges, Beliefs(edges.share, zeros, zeros, 1.0, False))
    assert sorted(zip(edges.right[chosen].tolist(), edges.left[chosen].tolist(), strict=True)) == [(0, 0), (1, 1)]


@given(seeds)
@settings(max_examples=FEW, deadline=None)
def test_rows_in_another_order_are_linked_the_same(seed: int) -> None:
    memory, right, _ = world(30, 12, seed, fitted=False)
    generator = Generator().manual_seed(seed)
    order, other = (torch.randperm(30, generator=generator) for _ in range(2))
    links = ahop.link(memory, right, unmatched=0.1)
    moved = ahop.link(ahop.AssociativeMemory(memory.patterns[other], model=memory.model), right[order], unmatched=0.1)
    there = {
        (int(other[left]), int(order[row])): probability
        for left, row, probability in zip(moved.left, moved.right, moved.probability, strict=True)
    }
    here = dict(zip(zip(links.left.tolist(), links.right.tolist(), strict=True), links.probability, strict=True))
    assert here.keys() == there.keys()
    assert all(abs(here[pair] - there[pair]) < 1e-3 for pair in here)


def world(
    count: int, dimensions: int, seed: int, fitted: bool = True, strangers: int = 0
) -> tuple[ahop.AssociativeMemory, Tensor, Tensor]:
    """A memory, copies of its rows in random order, and their origins; -1 for copies of rows that it has not got."""
    generator = Generator().manual_seed(seed)
    patterns = torch.rand(count + strangers, dimensions, generator=generator)
    origins = torch.randperm(count + strangers, generator=generator)
    right = patterns[origins] + 0.25 * torch.randn(len(origins), dimensions, generator=generator)
    stored = patterns[:count]
    memory = ahop.AssociativeMemory(stored, ahop.EuclideanSimilarity(), ahop.Softmax(8.0))
    if fitted:
        memory = ahop.AssociativeMemory(stored, model=fitted_model(dimensions))
    return memory, right, origins.where(origins < count, -1)


@cache
def fitted_model(dimensions: int) -> ahop.Model:
    """With a temperature, a floor and a detector of unknown queries."""
    patterns = torch.rand(100, dimensions, generator=Generator().manual_seed(99))
    pairs = ahop.NoisyVariant(0.25**2).sample(patterns, 100, seed=99)
    return ahop.fit(patterns, pairs=pairs, similarity="euclidean", progress=False).model


def test_tables_decide_better_together() -> None:
    memory, right, origins = world(200, 12, seed=0)
    alone = memory.recall(right)
    links = ahop.link(memory, right)
    together = origins[torch.as_tensor(links.right)] == torch.as_tensor(links.left)
    first = float((alone.indices[:, 0] == origins).double().mean())
    assert float(together.sum()) / 200 > first + 0.05
    assert abs(links.probability.mean() - float(together.double().mean())) < 0.06
    assert "links, right with" in str(links)


def test_rows_without_a_partner_are_said_on_both_sides() -> None:
    memory, right, origins = world(100, 24, seed=1, strangers=40)
    links = ahop.link(memory, right)
    is_stranger = (origins < 0).numpy()
    assert set(links.right) | set(links.unmatched_right.rows) == set(range(140))
    assert set(links.left) | set(links.unmatched_left.rows) == set(range(100))
    assert is_stranger[links.unmatched_right.rows].mean() > 0.9
    assert is_stranger[links.right].mean() < 0.1
    assert abs(links.unmatched_share - 40 / 140) < 0.08
    assert (links.unmatched_right.probability > 0.3).mean() > 0.9


def test_a_table_of_strangers_is_linked_to_nothing_much() -> None:
    memory, _, _ = world(60, 24, seed=2)
    strangers = 5 + torch.rand(30, 24, generator=Generator().manual_seed(3))
    links = ahop.link(memory, strangers)
    assert links.probability[links.rank == 1].sum() < 3
    assert len(links.unmatched_right) >= 27


def test_single_rows_and_empty_tables() -> None:
    links = ahop.link([[0.0, 1.0]], [[0.1, 0.9]], progress=False)
    assert links.left.tolist() == links.right.tolist() == [0]
    empty = ahop.link(torch.rand(3, 2), torch.empty(0, 2), progress=False)
    assert not len(empty)
    assert empty.unmatched_left.rows.tolist() == [0, 1, 2]


def test_nothing_is_known_of_a_row_that_was_not_observed() -> None:
    memory, right, origins = world(40, 24, seed=4)
    right[7] = torch.nan
    right[::3, :4] = torch.nan
    links = ahop.link(memory, right)
    assert np.isfinite(links.probability).all()
    assert (origins.numpy()[links.right] == links.left).mean() > 0.8


def test_labels_and_names_of_columns_are_honored() -> None:
    memory, right, origins = world(30, 8, seed=5, fitted=False)
    names = [f"c{number}" for number in range(8)]
    left = pandas.DataFrame(memory.patterns.numpy(), columns=names, index=[f"row {row}" for row in range(30)])
    copies = pandas.DataFrame(right.numpy(), columns=names, index=[f"copy {row}" for row in range(30)])[names[::-1]]
    links = ahop.link(left, copies, k=3, progress=False)
    first = links.rank == 1
    true = [f"row {int(origins[int(str(each).removeprefix('copy '))])}" for each in links.right[first]]
    assert (links.left[first] == true).mean() > 0.7
    frame = links.to_frame()
    assert list(frame.columns) == ["left", "right", "probability", "rank"]
    assert frame.groupby("right")["rank"].max().max() <= 3
    assert links.to_arrow().num_rows == len(polars.DataFrame(links.to_dict())) == len(frame)
    named = ahop.link(memory, right, labels=[f"x{row}" for row in range(30)])
    assert str(named.right[0]).startswith("x")


def test_several_copies_of_a_row_are_linked_where_they_may_be() -> None:
    memory, right, _ = world(20, 24, seed=6)
    twice = torch.cat([right, right + 0.01])
    assert len(ahop.link(memory, twice)) <= 20
    assert len(ahop.link(memory, twice, one_to_one=False)) == 40


def test_what_cannot_be_is_refused() -> None:
    memory, right, _ = world(10, 4, seed=7, fitted=False, strangers=5)
    with pytest.raises(InvalidValueError, match=r"must be at least 0\.3333"):
        ahop.link(memory, right, unmatched=0.1)
    with pytest.raises(InvalidValueError, match="less than 1"):
        ahop.link(memory, right, unmatched=1.0)
    assert ahop.link(memory, right[:8]).unmatched_share == 0  # without a detector all are taken to have an origin


def test_a_store_is_linked_by_its_memory(tmp_path: Path) -> None:
    pytest.importorskip("lance")
    memory, right, _ = world(10, 12, seed=7, fitted=False)
    store = ahop.create_store(tmp_path / "store", memory)
    with pytest.raises(InvalidTypeError, match=r"store\.memory"):
        ahop.link(store, right)
    assert np.array_equal(ahop.link(store.memory(), right).left, ahop.link(memory, right).left)


def test_those_that_see_candidates_alone_refuse_queries_of_one_origin(tmp_path: Path) -> None:
    pytest.importorskip("lance")
    memory, right, _ = world(10, 12, seed=7, fitted=False)
    store = ahop.create_store(tmp_path / "store", memory)
    for recaller in (ahop.index(memory), store, store.index()):
        with pytest.raises(UnsupportedError, match="`same` adds"):
            recaller.recall(right, same=[0] * len(right))


def test_an_index_links_as_its_memory_does(monkeypatch: pytest.MonkeyPatch) -> None:
    memory, right, _ = world(60, 24, seed=8)
    links, by_index = ahop.link(memory, right), ahop.link(ahop.index(memory), right)
    assert np.mean(links.left == by_index.left) > 0.95
    monkeypatch.setattr("ahop.operate.linking.edges.MANY_PAIRS", 0)
    assert np.mean(ahop.link(memory, right).left == by_index.left) > 0.95
    thinned = ahop.index(memory)
    thinned.remove([3])
    found = ahop.link(thinned, right)
    assert 3 not in found.left
    assert 3 not in found.unmatched_left.rows


# Queries of one origin.


def exact_together(memory: ahop.AssociativeMemory, queries: Tensor) -> Tensor:
    """The posterior of one origin of all queries, (n,), from the weights of each."""
    return memory.weights(queries).double().log().sum(0).softmax(0)


@pytest.mark.parametrize("floor", [0.0, 0.1])
def test_queries_of_one_origin_are_multiplied_over_all_patterns(floor: float) -> None:
    memory, right, _ = world(50, 6, seed=10, fitted=False)
    memory.separation = ahop.Softmax(8.0, floor)
    same = ["b", "a", "b", "b", "a", "c"]
    answer = memory.recall(right[:6], 50, same=same)
    assert answer.posterior.shape == (3, 50)
    for place, rows in enumerate(([0, 2, 3], [1, 4], [5])):
        expected = exact_together(memory, right[rows]).float()
        found = torch.zeros(50).scatter(0, answer.indices[place], answer.posterior[place])
        assert_close(found, expected, atol=1e-5, rtol=1e-3)


def test_queries_that_are_all_different_are_answered_as_without_same() -> None:
    memory, right, _ = world(50, 6, seed=11)
    right[3] = torch.nan
    right[4, :5] = torch.nan
    alone, same = memory.recall(right, 5), memory.recall(right, 5, same=list(range(50)))
    assert torch.equal(alone.indices[:, 0][:3], same.indices[:, 0][:3])
    assert_close(alone.posterior, same.posterior, atol=1e-5, rtol=1e-3)
    assert alone.unknown is not None
    assert same.unknown is not None
    assert_close(alone.unknown, same.unknown, atol=1e-5, rtol=1e-3)


def test_a_query_of_which_nothing_was_observed_adds_nothing() -> None:
    memory, right, _ = world(50, 6, seed=12)
    nothing = torch.full((1, 6), torch.nan)
    both = memory.recall(torch.cat([right[:1], nothing]), 3, same=[0, 0])
    assert_close(both.posterior, memory.recall(right[:1], 3).posterior, atol=1e-5, rtol=1e-3)
    blank = memory.recall(torch.cat([nothing, nothing]), 1, same=[0, 0])
    assert_close(blank.posterior, memory.recall(nothing, 1).posterior)


def test_a_prior_counts_once_and_where_is_honored() -> None:
    memory, right, _ = world(20, 6, seed=13, fitted=False)
    prior = torch.arange(1, 21.0).log()
    weighed = ahop.AssociativeMemory(memory.patterns, model=memory.model, log_prior=prior)
    answer = weighed.recall(right[:2], 20, same=["x", "x"])
    expected = (memory.weights(right[:2]).log().sum(0) + prior).softmax(0)
    assert_close(answer.posterior[0], expected[answer.indices[0]], atol=1e-5, rtol=1e-3)
    assert set(memory.recall(right[:4], 3, same=[0, 0, 1, 1], where=[2, 5, 7]).indices.flatten().tolist()) == {2, 5, 7}


def test_more_queries_of_one_origin_are_right_more_often_and_say_so() -> None:
    memory, _, _ = world(200, 6, seed=14, fitted=False)  # its temperature is that of the noise
    generator = Generator().manual_seed(1)
    origins = torch.randint(200, (3000,), generator=generator)
    copies = memory.patterns[origins].repeat(3, 1)
    copies = copies + 0.25 * torch.randn(copies.shape, generator=generator)
    together = memory.recall(copies, same=np.tile(np.arange(3000), 3))
    right = together.indices[:, 0] == origins
    assert float(right.double().mean()) > float((memory.recall(copies[:3000]).indices[:, 0] == origins).double().mean())
    assert abs(float(right.double().mean()) - float(together.posterior[:, 0].mean())) < 0.03


def test_same_needs_an_entry_for_each_query() -> None:
    memory, right, _ = world(5, 3, seed=15, fitted=False)
    with pytest.raises(ValueError, match="one for each query"):
        memory.recall(right, same=["a"])
    assert memory.recall(right[:0], same=[]).indices.shape == (0, 1)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_tables_of_few_columns_are_linked_in_any_precision(dtype: type[np.floating]) -> None:
    """Halves of six columns with gaps share nothing with many rows: such scores must not spoil all others."""
    generator = np.random.default_rng(3)
    left = generator.standard_normal((120, 6))
    origins = generator.permutation(120)[:100]
    right = left[origins] + 0.1 * generator.standard_normal((100, 6))
    right[generator.random(right.shape) < 0.05] = 4.0
    right[generator.random(right.shape) < 0.15] = np.nan
    links = ahop.link(left.astype(dtype), right.astype(dtype), progress=False)
    right_links = sum(int(origins[row]) == column for row, column in zip(links.right, links.left, strict=True))
    assert right_links >= 85
    assert len(links.left) - right_links <= 5
