"""A floor under the posterior: indexes, tables and shards answer as the memory does, whatever rows pass a filter."""

import time
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.testing import assert_close

import ahop
from ahop.scale.cluster import LocalCluster
from ahop.scale.stores import Store, create_store
from ahop.separations.softmax import Softmax
from tests.strategies import FEW, Problem, gapped_problems, problems

pytest.importorskip("lance")
pytest.importorskip("faiss")

COUNT, DIMENSIONS, FLOOR = 90, 6, 0.25
COLORS = ["red", "green", "blue"] * (COUNT // 3)
every_filter = pytest.mark.parametrize("where", [None, {"color": "red"}, {"color": ["red", "blue"]}, {"color": "no"}])


def patterns() -> Tensor:
    return torch.rand(COUNT, DIMENSIONS, generator=torch.Generator().manual_seed(0))


def queries(count: int = 20) -> Tensor:
    return ahop.NoisyVariant(0.01).sample(patterns(), count, seed=1).queries


def floored(stored: Tensor, floor: float = FLOOR, beta: float = 5.0) -> ahop.AssociativeMemory:
    return ahop.AssociativeMemory(stored, ahop.EuclideanSimilarity(), Softmax(beta, floor))


def fitted() -> ahop.AssociativeMemory:
    """With a detector of unknown queries."""
    pairs = ahop.NoisyVariant(0.05).sample(patterns(), 40, seed=2)
    memory = ahop.fit(patterns(), pairs=pairs, similarity="debiased", progress=False)
    memory.separation = Softmax(8.0, FLOOR)
    return memory


def rows_that_pass(where: dict[str, Any] | None) -> Tensor:
    asked = None if where is None else where["color"]
    return torch.tensor([row for row, color in enumerate(COLORS) if asked is None or color in asked])


def assert_answers_as_those_that_pass(answer: ahop.Recall[Tensor], where: dict[str, Any] | None, k: int) -> None:
    """As a memory of the rows that pass; nothing where there are no more."""
    rows = rows_that_pass(where)
    short = k - min(k, len(rows))
    if not len(rows):
        assert not bool(answer.posterior.any())
        return
    expected = floored(patterns()[rows]).recall(queries(), k)
    assert torch.equal(answer.indices[:, : k - short], rows[expected.indices])
    assert_close(answer.posterior[:, : k - short], expected.posterior, atol=1e-4, rtol=1e-3)
    assert not bool(answer.posterior[:, k - short :].any())


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    folder = tmp_path_factory.mktemp("store") / "table"
    return create_store(folder, floored(patterns()), metadata={"color": COLORS}, fragment_rows=40)


# The formula.


@settings(max_examples=FEW)
@given(case=problems, floor=st.floats(0.0, 0.9), k=st.integers(1, 12))
def test_a_memory_with_a_floor_spreads_it_over_all_patterns(case: Problem, floor: float, k: int) -> None:
    plain, with_floor = floored(case.patterns, 0.0), floored(case.patterns, floor)
    expected = (1 - floor) * plain.recall(case.queries, k).posterior + floor / len(case.patterns)
    assert_close(with_floor.recall(case.queries, k).posterior, expected)
    assert_close(with_floor.weights(case.queries).sum(-1), torch.ones(len(case.queries)).double())


@settings(max_examples=FEW)
@given(case=gapped_problems, k=st.integers(1, 12))
def test_what_is_recalled_are_the_weights_also_where_patterns_share_nothing(case: Problem, k: int) -> None:
    memory = floored(case.patterns)
    best = memory.weights(case.queries).topk(min(k, len(case.patterns))).values
    assert_close(memory.recall(case.queries, k).posterior, best)


def test_patterns_that_share_nothing_with_a_query_get_nothing_of_the_floor(monkeypatch: pytest.MonkeyPatch) -> None:
    gap = torch.nan
    stored = torch.tensor([[1.0, gap], [2.0, gap], [gap, 1.0], [1.0, 1.0]])
    asked = torch.tensor([[1.0, gap], [gap, gap]])
    for size in (1, 2**20):
        monkeypatch.setattr("ahop.memory.scoring.BLOCK_BYTES", size)
        monkeypatch.setattr("ahop.memory.scoring.COLUMNS_A_ROW", 0)
        answer = floored(stored, beta=1e6).recall(asked, k=4)
        half = (1 - FLOOR) / 2 + FLOOR / 3
        assert answer.indices[0].tolist() == [0, 3, 1, 2]
        assert answer.posterior[0].tolist() == pytest.approx([half, half, FLOOR / 3, 0])
        assert answer.posterior[1].tolist() == pytest.approx([0.25] * 4)


def test_blocks_of_patterns_do_not_change_the_floor(monkeypatch: pytest.MonkeyPatch) -> None:
    memory = floored(patterns())
    expected = memory.recall(queries(), k=5)
    monkeypatch.setattr("ahop.memory.scoring.BLOCK_BYTES", 2000)
    monkeypatch.setattr("ahop.memory.scoring.COLUMNS_A_ROW", 0)
    answer = memory.recall(queries(), k=5)
    assert torch.equal(answer.indices, expected.indices)
    assert_close(answer.posterior, expected.posterior)


# Indexes.


@every_filter
@pytest.mark.parametrize("k", [1, 4, 40])
def test_an_index_answers_as_the_memory(where: dict[str, Any] | None, k: int) -> None:
    index = ahop.index(floored(patterns()), metadata={"color": COLORS})
    assert_answers_as_those_that_pass(index.recall(queries(), k, where=where), where, k)


def test_an_index_with_a_detector_answers_as_the_memory() -> None:
    memory = fitted()
    expected, answer = memory.recall(queries(), 3), ahop.index(memory).recall(queries(), 3)
    assert torch.equal(answer.indices, expected.indices)
    assert_close(answer.posterior, expected.posterior, atol=1e-4, rtol=1e-3)
    assert answer.unknown is not None


def test_rows_that_are_gone_from_an_index_get_nothing_of_the_floor() -> None:
    index = ahop.index(floored(patterns()))
    index.remove(torch.arange(30))
    expected = floored(patterns()[30:]).recall(queries(), 4)
    answer = index.recall(queries(), 4)
    assert torch.equal(answer.indices, 30 + expected.indices)
    assert_close(answer.posterior, expected.posterior, atol=1e-4, rtol=1e-3)


# Tables.


@every_filter
@pytest.mark.parametrize("k", [1, 4, 40])
def test_a_table_answers_as_the_memory(store: Store, where: dict[str, Any] | None, k: int) -> None:
    assert_answers_as_those_that_pass(store.recall(queries(), k, where=where), where, k)


@settings(max_examples=FEW)
@given(case=st.one_of(problems, gapped_problems), k=st.integers(1, 14), rows=st.integers(1, 5))
def test_a_table_with_gaps_answers_as_the_memory(case: Problem, k: int, rows: int) -> None:
    memory = floored(case.patterns.float())
    store = create_store(f"memory://{time.monotonic_ns()}", memory, fragment_rows=rows)
    expected, answer = memory.recall(case.queries.float(), k), store.recall(case.queries.float(), k)
    assert_close(answer.posterior, expected.posterior, atol=1e-5, rtol=1e-5)


def test_a_table_keeps_the_floor(store: Store) -> None:
    separation = store.memory().separation
    assert isinstance(separation, Softmax)
    assert (separation.beta, separation.floor) == (5.0, FLOOR)


# LocalCluster.


@every_filter
@pytest.mark.parametrize("k", [1, 4])
def test_shards_answer_as_the_memory(store: Store, where: dict[str, Any] | None, k: int) -> None:
    with LocalCluster(store, 3) as shards:
        answer = shards.recall(queries(), k, where=where)
    assert_answers_as_those_that_pass(answer, where, k)


@every_filter
def test_shards_without_a_lifting_answer_as_the_memory(where: dict[str, Any] | None, tmp_path: Path) -> None:
    memory = ahop.AssociativeMemory(patterns(), ahop.similarities.ManhattanSimilarity(), Softmax(5.0, FLOOR))
    store = create_store(tmp_path / "table", memory, metadata={"color": COLORS}, fragment_rows=40)
    rows = rows_that_pass(where)
    with LocalCluster(store, 2) as shards:
        answer = shards.recall(queries(), 3, where=where)
    assert_close(answer.posterior, store.recall(queries(), 3, where=where).posterior, atol=1e-4, rtol=1e-3)
    if len(rows):
        alone = ahop.AssociativeMemory(patterns()[rows], ahop.similarities.ManhattanSimilarity(), Softmax(5.0, FLOOR))
        assert_close(answer.posterior, alone.recall(queries(), 3).posterior, atol=1e-4, rtol=1e-3)
