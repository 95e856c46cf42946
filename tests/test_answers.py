"""What the answers to a query say together."""

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import ahop
from ahop.errors import AhopError, InvalidTypeError, InvalidValueError, ShapeError
from ahop.memory.decisions import Policy
from tests.strategies import seeds

LABELS = ["ant", "bee", "cat"]


def answer(labels: bool = True) -> ahop.Recall[Any]:
    """Two queries with two answers each; the second has but one."""
    indices, posterior = np.array([[0, 2], [1, -1]]), np.array([[0.6, 0.2], [0.5, 0.0]])
    named = np.array([["ant", "cat"], ["bee", None]], dtype=object)
    return ahop.Recall(indices, posterior, np.zeros((2, 2, 3)), None, named if labels else None)


@pytest.mark.parametrize("labels", [True, False])
@pytest.mark.parametrize(
    "values",
    [
        [1.0, 2.0, 5.0],
        [1, 2, 5],
        np.array([1.0, 2.0, 5.0]),
        torch.tensor([1, 2, 5]),
        pl.Series([1, 2, 5]),
    ],
    ids=lambda values: type(values).__module__,
)
def test_the_mean_is_that_of_the_answers(values: Any, labels: bool) -> None:
    assert np.allclose(answer(labels).expect(values), [(0.6 * 1 + 0.2 * 5) / 0.8, 2.0])


@pytest.mark.parametrize(
    "values",
    [
        {"cat": 5, "ant": 1, "bee": 2, "cow": 9},
        pd.Series([5, 1, 2], index=["cat", "ant", "bee"]),
        pd.Series(pd.array([5, 1, 2, None], dtype="Int64"), index=["cat", "ant", "bee", "cow"]),
    ],
    ids=lambda values: type(values).__name__,
)
def test_values_are_found_by_label(values: Any) -> None:
    assert np.allclose(answer().expect(values), [2.0, 2.0])


def test_values_are_found_by_row_where_there_are_no_labels() -> None:
    assert np.allclose(answer(labels=False).expect({2: 5, 0: 1, 1: 2}), [2.0, 2.0])
    assert np.allclose(answer(labels=False).expect(pd.Series([5, 1, 2], index=[2, 0, 1])), [2.0, 2.0])


@pytest.mark.parametrize(
    "values",
    [
        [[1, 10], [2, 20], [5, None]],
        {"ant": [1, 10], "bee": [2, 20], "cat": [5, np.nan]},
        pd.DataFrame({"x": [5, 1, 2], "y": [None, 10, 20]}, index=["cat", "ant", "bee"]),
        pl.DataFrame({"x": [1, 2, 5], "y": [10, 20, None]}),
        torch.tensor([[1, 10], [2, 20], [5, torch.nan]]),
    ],
    ids=lambda values: type(values).__module__,
)
def test_what_is_not_known_is_left_out_of_the_mean(values: Any) -> None:
    assert np.allclose(answer().expect(values), [[2.0, 10.0], [2.0, 20.0]])


def test_a_mean_of_nothing_is_nan() -> None:
    assert np.array_equal(answer().expect([1.0, np.nan, 1.0]), [1.0, np.nan], equal_nan=True)
    assert np.isnan(answer().expect([[np.nan, np.nan]] * 3)).all()


@pytest.mark.parametrize(
    ("values", "error", "message"),
    [
        ([], InvalidValueError, "an entry for each stored pattern; got none"),
        ([1.0, 2.0], InvalidValueError, "an entry for each stored pattern; got 2, and row 2 is among the answers"),
        ({"ant": 1.0, "cat": 2.0}, InvalidValueError, "must have an entry for 'bee', which is among the answers"),
        (pd.Series([1.0, 2.0, 3.0]), InvalidValueError, "must have an entry for 'ant'"),
        (pd.Series([1.0] * 4, index=[*LABELS, "ant"]), InvalidValueError, "one entry for each label; got 4 for 3"),
        (["x", "y", "z"], InvalidTypeError, "`values` must hold numbers"),
        (pd.Series(["x", "y", "z"], index=LABELS), InvalidTypeError, "`values` must hold numbers"),
        ([1.0, np.inf, 0.0], InvalidValueError, "`values` must be finite"),
        (np.zeros((3, 2, 2)), ShapeError, r"`values` must have shape \(n,\) or \(n, c\)"),
    ],
)  # fmt: skip
def test_values_without_meaning_are_refused(values: Any, error: type[AhopError], message: str) -> None:
    with pytest.raises(error, match=message):
        answer().expect(values)


@pytest.mark.parametrize(
    "classes",
    [
        ["pet", "wild", "pet"],
        np.array(["pet", "wild", "pet"]),
        {"ant": "pet", "bee": "wild", "cat": "pet"},
        pd.Series(["pet", "pet", "wild"], index=["cat", "ant", "bee"]),
        pl.Series(["pet", "wild", "pet"]),
    ],
    ids=lambda classes: type(classes).__module__,
)
def test_the_mass_of_a_class_is_that_of_its_answers(classes: Any) -> None:
    found = answer().mass(classes)
    assert found.classes.tolist() == ["pet", "wild"]
    assert np.allclose(found.mass, [[0.8, 0.0], [0.0, 0.5]])
    assert found.best.tolist() == ["pet", "wild"]


def test_patterns_of_no_class_count_for_none() -> None:
    found = answer().mass([7, None, 8])
    assert found.classes.tolist() == [7, 8]
    assert np.allclose(found.mass, [[0.6, 0.2], [0.0, 0.0]])
    assert found.best.tolist() == [7, None]
    assert answer().mass([(1, 2), (3, 4), (1, 2)]).best.tolist() == [(1, 2), (3, 4)]
    nothing = answer().mass([None, np.nan, None])
    assert nothing.mass.shape == (2, 0)
    assert nothing.best.tolist() == [None, None]


def test_classes_without_meaning_are_refused() -> None:
    with pytest.raises(InvalidTypeError, match="`classes` must be words or numbers"):
        answer().mass([[1], [2], [3]])
    with pytest.raises(InvalidValueError, match="`classes` must have an entry for each stored pattern; got 1"):
        answer().mass(["x"])


@given(seed=seeds, count=st.integers(1, 6), batch=st.integers(0, 4), k=st.integers(1, 6))
def test_means_and_masses_of_all_answers_are_those_of_the_weights(seed: int, count: int, batch: int, k: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    patterns = torch.randn(count, 3, generator=generator, dtype=torch.float64)
    queries = torch.randn(batch, 3, generator=generator, dtype=torch.float64)
    values = torch.randn(count, 2, generator=generator, dtype=torch.float64)
    classes = torch.randint(3, (count,), generator=generator)
    memory = ahop.AssociativeMemory(patterns, labels=[f"row {row}" for row in range(count)])
    weights, every = memory.weights(queries), memory.recall(queries, k=count)
    assert torch.allclose(every.expect(values), weights @ values)
    found = every.mass(classes)
    assert torch.allclose(found.mass.sum(-1), torch.ones(batch, dtype=torch.float64))
    for column, each in enumerate(found.classes):
        assert torch.allclose(found.mass[:, column], weights[:, classes == each].sum(-1))
    some = memory.recall(queries.numpy(), k=k)
    by_label = {f"row {row}": value.tolist() for row, value in enumerate(values)}
    assert isinstance(some.expect(values), np.ndarray)
    assert np.allclose(some.expect(by_label), some.expect(values.numpy()))
    assert some.mass(classes.tolist()).mass.shape == (batch, len(set(classes.tolist())))


def test_precision_is_that_of_the_values() -> None:
    single = ahop.AssociativeMemory(torch.eye(3)).recall(torch.eye(3))
    assert single.expect(torch.zeros(3)).dtype == torch.float32
    assert float(single.expect([4_864_000.123456] * 3)[0]) == pytest.approx(4_864_000.123456, rel=1e-14)
    assert single.mass([1, 2, 3]).mass.dtype == torch.float32


def test_a_frame_has_a_row_for_each_query_and_rank() -> None:
    frame = answer().to_frame()
    assert list(frame.columns) == ["query", "rank", "pattern", "label", "probability"]
    assert frame["query"].tolist() == [0, 0, 1, 1]
    assert frame["rank"].tolist() == [1, 2, 1, 2]
    assert frame["pattern"].tolist() == [0, 2, 1, -1]
    assert frame["label"].tolist()[:3] == ["ant", "cat", "bee"]
    assert frame["label"].isna().tolist() == [False, False, False, True]
    assert frame["probability"].tolist() == [0.6, 0.2, 0.5, 0.0]


def test_a_frame_has_the_decisions_of_a_policy() -> None:
    found = ahop.Recall(
        torch.tensor([[0, 2], [1, -1]]),
        torch.tensor([[0.75, 0.25], [0.5, 0.0]]),
        torch.zeros(2, 2, 3),
        torch.tensor([0.0, 0.75]),
    )
    frame = found.to_frame(Policy(accept_from=0.5, unknown_from=0.5))
    assert list(frame.columns) == ["query", "rank", "pattern", "probability", "unknown", "decision"]
    assert frame["unknown"].tolist() == [0.0, 0.0, 0.75, 0.75]
    assert frame["decision"].tolist() == ["accept", "accept", "unknown", "unknown"]


def test_no_queries_make_an_empty_frame() -> None:
    memory = ahop.AssociativeMemory(np.eye(3), ahop.EuclideanSimilarity(), labels=LABELS)
    assert memory.recall(np.empty((0, 3)), k=2).to_frame().shape == (0, 5)
