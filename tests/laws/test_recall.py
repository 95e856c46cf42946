"""Whoever recalls, recalls as the memory does, or says that it cannot."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import ahop
from ahop.errors import AhopError
from tests.recallers import DIMENSIONS, RECALLERS, Case, copies, fitted, rows_of
from tests.test_ray import a_ray  # noqa: F401 - a fixture
from tests.test_ray import pytestmark as marks_of_ray

pytestmark = [mark for mark in marks_of_ray if mark.name != "slow"]


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(name, marks=[pytest.mark.slow] if case.needs == "ray" else []) for name, case in RECALLERS.items()
    ],
)
def case(request: pytest.FixtureRequest) -> Case:
    return RECALLERS[request.param]


@pytest.fixture(scope="module")
def memory() -> ahop.AssociativeMemory:
    return fitted()


@pytest.fixture(scope="module")
def recaller(
    case: Case, memory: ahop.AssociativeMemory, tmp_path_factory: pytest.TempPathFactory, request: Any
) -> Iterator[Any]:
    if case.needs == "ray":
        pytest.importorskip("ray")
        request.getfixturevalue("a_ray")
    with case.make(memory, tmp_path_factory.mktemp("recaller")) as made:
        yield made


def asked(memory: ahop.AssociativeMemory, gaps: float = 0.0, count: int = 60) -> tuple[Tensor, list[str]]:
    pairs, groups = copies(memory.patterns, count, seed=2)
    generator = torch.Generator().manual_seed(3)
    return pairs.queries.masked_fill(torch.rand(pairs.queries.shape, generator=generator) < gaps, torch.nan), groups


def agree(found: Any, expected: Any, case: Case) -> None:
    hits = (found.indices[:, 0] == expected.indices[:, 0]).double().mean()
    assert float(hits) == 1
    apart = (torch.as_tensor(found.posterior) - expected.posterior).abs()
    same = torch.as_tensor(found.indices) == expected.indices
    assert float(apart[same].max()) <= case.error
    assert found.unknown is not None
    assert float((torch.as_tensor(found.unknown) - expected.unknown).abs().max()) <= case.unknown_error
    known = torch.as_tensor(found.indices) >= 0
    assert torch.equal(torch.as_tensor(found.patterns)[known & same], expected.patterns[known & same])


@pytest.mark.parametrize("k", [1, 5])
@pytest.mark.parametrize("gaps", [0.0, 0.3])
def test_rows_posterior_and_unknown_are_those_of_the_memory(
    recaller: Any, memory: ahop.AssociativeMemory, case: Case, k: int, gaps: float
) -> None:
    queries, _ = asked(memory, gaps)
    agree(recaller.recall(queries, k), memory.recall(queries, k), case)


@pytest.mark.parametrize("gaps", [0.0, 0.3])
def test_groups_are_heard(recaller: Any, memory: ahop.AssociativeMemory, case: Case, gaps: float) -> None:
    queries, groups = asked(memory, gaps)
    with_groups, without = memory.recall(queries, 3, groups=groups), memory.recall(queries, 3)
    assert not torch.equal(with_groups.indices, without.indices), "or nothing is shown"
    agree(recaller.recall(queries, 3, groups=groups), with_groups, case)
    strange = ["never seen"] * len(queries)
    agree(recaller.recall(queries, 3, groups=strange), without, case)


def test_a_wrong_number_of_groups_is_refused(recaller: Any, memory: ahop.AssociativeMemory) -> None:
    with pytest.raises(AhopError, match="groups"):
        recaller.recall(asked(memory)[0], groups=["up"])


def test_filters_are_heard(recaller: Any, memory: ahop.AssociativeMemory, case: Case) -> None:
    queries, groups = asked(memory, 0.2)
    red = rows_of("red", len(memory))
    where: Any = {"color": "red"} if case.has_columns else red
    for named in (None, groups):
        expected = memory.recall(queries, 4, where=red, groups=named)
        assert bool(torch.isin(expected.indices, red).all())
        agree(recaller.recall(queries, 4, where=where, groups=named), expected, case)


def test_a_column_that_is_not_there_is_refused(recaller: Any, memory: ahop.AssociativeMemory) -> None:
    with pytest.raises(AhopError, match=r"where|column"):
        recaller.recall(asked(memory)[0], where={"size": 3})


def test_no_queries_are_answered_by_nothing(recaller: Any, memory: ahop.AssociativeMemory) -> None:
    found = recaller.recall(torch.empty(0, DIMENSIONS), 3)
    assert tuple(found.indices.shape) == tuple(found.posterior.shape) == (0, 3)
    assert tuple(found.patterns.shape) == (0, 3, DIMENSIONS)
    assert found.unknown is not None
    assert len(found.unknown) == 0
    assert len(recaller.recall(torch.empty(0, DIMENSIONS), 3, groups=[]).indices) == 0


def test_more_are_asked_for_than_there_are(recaller: Any, memory: ahop.AssociativeMemory) -> None:
    found = recaller.recall(asked(memory, count=3)[0], len(memory) + 7)
    assert found.indices.shape[1] == len(memory)
    assert float(torch.as_tensor(found.posterior).sum(-1).sub(1).abs().max()) < 1e-4


def test_a_query_of_which_nothing_is_known_makes_all_alike(recaller: Any, memory: ahop.AssociativeMemory) -> None:
    found = recaller.recall(torch.full((2, DIMENSIONS), torch.nan), 5)
    assert bool(torch.isfinite(torch.as_tensor(found.posterior)).all())
    expected = memory.recall(torch.full((2, DIMENSIONS), torch.nan), 5)
    assert float((torch.as_tensor(found.posterior) - expected.posterior).abs().max()) < 0.02


def test_arrays_are_answered_by_arrays(recaller: Any, memory: ahop.AssociativeMemory, case: Case) -> None:
    queries, groups = asked(memory)
    found = recaller.recall(queries.numpy(), 2, groups=groups)
    assert isinstance(found.indices, np.ndarray)
    assert isinstance(found.posterior, np.ndarray)
    expected = memory.recall(queries, 2, groups=groups)
    assert np.mean(found.indices[:, 0] == expected.indices[:, 0].numpy()) == 1


@pytest.mark.parametrize("wrong", [torch.zeros(2, DIMENSIONS + 1), torch.full((1, DIMENSIONS), torch.inf)], ids=str)
def test_queries_that_do_not_fit_are_refused(recaller: Any, wrong: Tensor) -> None:
    with pytest.raises(AhopError):
        recaller.recall(wrong)


@pytest.mark.parametrize("wrong", [0, -1, 1.5])
def test_an_impossible_k_is_refused(recaller: Any, memory: ahop.AssociativeMemory, wrong: Any, unchecked: None) -> None:
    with pytest.raises(AhopError, match="k"):
        recaller.recall(memory.patterns[:1], wrong)


def test_where_and_groups_are_given_by_name(recaller: Any, memory: ahop.AssociativeMemory) -> None:
    with pytest.raises(TypeError):
        recaller.recall(memory.patterns[:1], 1, None)
