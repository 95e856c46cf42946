"""Whoever begins writes rows, frames and names in their own way, and is told what to write instead."""

import warnings

import numpy as np
import pandas as pd
import pytest
import torch

import ahop
from ahop._core.placeholders import placeholder_of
from ahop._core.words import did_you_mean
from ahop.errors import InvalidTypeError, InvalidValueError

# As users run it: what reaches our own checks when nothing else stops it.
pytestmark = pytest.mark.usefixtures("unchecked")
FRAME = pd.DataFrame(np.eye(4), columns=["ap01", "ap02", "ap03", "ap04"], index=["a", "b", "c", "d"])


@pytest.fixture
def memory() -> ahop.AssociativeMemory:
    return ahop.AssociativeMemory(FRAME, ahop.EuclideanSimilarity())


def test_rows_may_be_dictionaries_by_the_names_of_columns(memory: ahop.AssociativeMemory) -> None:
    rows = [{"ap02": 1.0, "ap01": 0.0}, {"ap04": 1, "ap03": None}]
    found = memory.recall(rows)
    same = memory.recall(pd.DataFrame(rows)[["ap01", "ap02", "ap03", "ap04"]].astype(float))
    assert found.labels is not None
    assert found.labels[:, 0].tolist() == ["b", "d"]
    assert np.array_equal(found.posterior, same.posterior)
    nameless = ahop.AssociativeMemory(np.eye(4), ahop.EuclideanSimilarity())
    with pytest.raises(InvalidTypeError, match="Store a frame"):
        nameless.recall(rows)


def test_a_name_that_is_nearly_right_is_asked_for(memory: ahop.AssociativeMemory) -> None:
    with pytest.raises(InvalidValueError, match="Did you mean 'ap01'"):
        memory.recall([{"AP01": 1.0}])
    with pytest.raises(InvalidValueError, match="Did you mean 'ap02'"):
        memory.recall(FRAME.rename(columns={"ap02": "AP02"}))
    assert did_you_mean("door", ["ap01", "ap02"]) == ""
    assert did_you_mean("x", []) == ""


def test_one_row_of_a_frame_is_refused_with_what_works(memory: ahop.AssociativeMemory) -> None:
    row = FRAME.iloc[1]
    with pytest.raises(InvalidTypeError, match=r"queries\.to_frame\(\)\.T"):
        memory.recall(row)
    assert memory.recall(row.to_frame().T).indices.tolist() == [[1]]
    assert memory.recall([dict(row)]).indices.tolist() == [[1]]


def test_pairs_as_one_frame_are_refused_with_what_works(memory: ahop.AssociativeMemory) -> None:
    pairs = FRAME.reset_index(names="origin")
    with pytest.raises(InvalidTypeError, match=r"frame\['origin'\], frame\.drop\(columns='origin'\)"):
        ahop.policy(memory, pairs, precision=0.9)
    with pytest.raises(InvalidTypeError, match=r"frame\['origin'\], frame\.drop\(columns='origin'\)"):
        ahop.fit(FRAME, pairs=pairs)


def test_a_rival_that_is_not_stored_is_answered_by_one_that_is() -> None:
    named = ahop.AssociativeMemory(np.eye(4), ahop.EuclideanSimilarity(), labels=["room 1", "room 2", "hall", "door"])
    with pytest.raises(InvalidValueError, match="Did you mean 'room 2'") as error:
        named.explain(np.eye(4)[0], against="Room 2")
    assert "Pairs" not in str(error.value)


def test_a_number_that_stands_for_nothing_heard_is_noticed() -> None:
    heard = torch.randint(-95, -35, (60, 20), generator=torch.Generator().manual_seed(0)).float()
    marked = heard.masked_fill(torch.rand(60, 20, generator=torch.Generator().manual_seed(1)) < 0.4, 100.0)
    assert placeholder_of(marked) == 100
    assert placeholder_of(-marked) == -100
    pairs = ahop.NoisyVariant(0.2).sample(heard, 40, seed=1)
    with pytest.warns(UserWarning, match="`patterns` are 100, far from all others"):
        ahop.fit(marked, pairs=pairs, similarity="euclidean", progress=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ahop.fit(heard, pairs=pairs, similarity="euclidean", progress=False)


@pytest.mark.parametrize(
    "values",
    [
        torch.full((5, 5), torch.nan),
        torch.zeros(50, 50),
        torch.eye(50),
        torch.rand(50, 50).round(decimals=1),
        torch.rand(50, 50).mul(255).round().clamp(40, 255),
        torch.randn(50, 50).index_put((torch.tensor(0), torch.tensor(0)), torch.tensor(1e6)),
        torch.randn(50, 50).exp().sub(1).relu(),
        torch.zeros(0, 3),
    ],
)
def test_no_other_number_is_taken_for_one(values: torch.Tensor) -> None:
    assert placeholder_of(values) is None
