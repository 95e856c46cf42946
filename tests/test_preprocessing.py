"""Visits into patterns, spectra onto one grid and one scale."""

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import ahop
from ahop.errors import InvalidTypeError, InvalidValueError, ShapeError
from ahop.transforms import common_grid, pool_visits, resample, snv
from tests.strategies import HUGE, seeds

nan = np.nan
VISITS = np.array([[1.0, nan, 2.0], [4.0, nan, 6.0], [3.0, 5.0, nan], [nan, nan, nan]])
PLACES = ["hall", "yard", "hall", "hall"]


def gappy(seed: int, count: int, dimensions: int) -> NDArray[Any]:
    rng = np.random.default_rng(seed)
    rows = rng.normal(3, 2, size=(count, dimensions))
    rows[rng.random(rows.shape) < 0.3] = nan
    return rows


def test_visits_become_the_mean_of_what_was_observed_often_enough() -> None:
    patterns, labels, heard = pool_visits(VISITS, PLACES, least_share=0.5)
    assert labels == ["hall", "yard"]
    assert np.array_equal(patterns, [[2.0, nan, nan], [4.0, nan, 6.0]], equal_nan=True)
    assert np.allclose(heard, np.array([[2, 1, 1], [3, 0, 3]]) / 3)
    assert np.array_equal(pool_visits(VISITS, PLACES).patterns[0], [2.0, 5.0, 2.0])


@given(seed=seeds, count=st.integers(1, 12), share=st.floats(0, 1))
def test_pooling_is_what_it_says(seed: int, count: int, share: float) -> None:
    rows, labels = gappy(seed, count, 3), np.random.default_rng(seed).integers(3, size=count)
    found = pool_visits(rows, labels, share)
    for pattern, label, heard in zip(found.patterns, found.labels, found.heard, strict=True):
        own = rows[labels == label]
        share_of = (~np.isnan(own)).mean(0)
        assert np.allclose(heard, share_of)
        for dimension in range(3):
            known = own[:, dimension][~np.isnan(own[:, dimension])]
            if len(known) and share_of[dimension] > share + 1e-9:
                assert np.isclose(pattern[dimension], known.mean())
            elif not len(known) or share_of[dimension] < share - 1e-9:
                assert np.isnan(pattern[dimension])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_three_of_ten_visits_are_a_share_of_three_tenths(dtype: type) -> None:
    rows: NDArray[Any] = np.full((10, 1), nan, dtype=dtype)
    rows[:3] = 1
    assert pool_visits(rows, [0] * 10, 0.3).patterns.tolist() == [[1.0]]


def test_one_visit_each_is_left_as_it_is() -> None:
    rows = gappy(0, 5, 4)
    assert np.array_equal(pool_visits(rows, range(5)).patterns, rows, equal_nan=True)


def test_what_comes_out_is_of_the_kind_that_went_in() -> None:
    tensors = pool_visits(torch.tensor(VISITS), PLACES)
    assert isinstance(tensors.patterns, torch.Tensor)
    assert isinstance(tensors.heard, torch.Tensor)
    frame = pool_visits(pd.DataFrame(VISITS, columns=["x", "y", "z"]), pd.Series(PLACES))
    assert frame.patterns.index.tolist() == ["hall", "yard"]
    assert frame.patterns.columns.tolist() == frame.heard.columns.tolist() == ["x", "y", "z"]
    polar = pool_visits(pl.DataFrame(VISITS, schema=["x", "y", "z"]), pl.Series(PLACES))
    assert polar.heard.columns == ["x", "y", "z"]
    assert np.array_equal(polar.patterns.to_numpy(), frame.patterns.to_numpy(), equal_nan=True)
    memory = ahop.AssociativeMemory(frame.patterns)
    assert memory.columns == ("x", "y", "z")
    assert memory.recall(frame.patterns).labels is not None


def test_visits_without_meaning_are_refused() -> None:
    with pytest.raises(ShapeError, match="`labels` must be 4, one for each pattern; got 3"):
        pool_visits(VISITS, PLACES[:3])
    with pytest.raises(InvalidValueError, match="`least_share`"):
        pool_visits(VISITS, PLACES, 1.5)
    with pytest.raises(InvalidTypeError, match="the columns 'y' do not"):
        pool_visits(pd.DataFrame({"x": [1.0], "y": ["a"]}), ["hall"])


@given(seed=seeds, count=st.integers(0, 5), gain=st.floats(0.01, 100), offset=st.floats(-10, 10))
def test_neither_gain_nor_offset_is_left_by_snv(seed: int, count: int, gain: float, offset: float) -> None:
    rows = gappy(seed, count, 12)
    found = snv(rows)
    assert np.array_equal(np.isnan(found), np.isnan(rows))
    for row, own in zip(rows, found, strict=True):
        known = row[~np.isnan(row)]
        if len(known) > 1:
            assert np.allclose(own[~np.isnan(row)], (known - known.mean()) / known.std())
    assert np.allclose(snv(gain * rows + offset), found, atol=1e-6, equal_nan=True)


@given(value=st.floats(-HUGE, HUGE, width=32), dimensions=st.integers(1, 2000))
def test_a_row_that_is_the_same_everywhere_becomes_zeros(value: float, dimensions: int) -> None:
    assert torch.equal(snv(torch.full((1, dimensions), value)), torch.zeros(1, dimensions))


def test_snv_keeps_gaps_kinds_and_large_numbers() -> None:
    rows = torch.tensor([[1e38, -1e38, torch.nan], [torch.nan] * 3, [torch.nan, 2.0, torch.nan]])
    found = snv(rows)
    assert torch.allclose(found[0, :2], torch.tensor([1.0, -1.0]))
    assert found[1].isnan().all()
    assert found[2, 1] == 0
    assert isinstance(snv([[1.0, 2.0, 3.0]]), np.ndarray)


@given(seed=seeds, points=st.integers(2, 9), falls=st.booleans())
def test_resampling_is_linear_interpolation(seed: int, points: int, falls: bool) -> None:
    rng = np.random.default_rng(seed)
    grid, rows = np.cumsum(rng.uniform(0.1, 1, points)), rng.normal(size=(3, points))
    onto = rng.uniform(grid[0] - 1, grid[-1] + 1, 20)
    expected = np.stack([np.interp(onto, grid, row, left=nan, right=nan) for row in rows])
    found = resample(rows[:, ::-1], grid[::-1], onto) if falls else resample(rows, grid, onto)
    assert np.allclose(found, expected, equal_nan=True)


@given(seed=seeds, points=st.integers(1, 9))
def test_rows_at_the_points_of_their_grid_stay_as_they_are(seed: int, points: int) -> None:
    grid, rows = np.cumsum(np.random.default_rng(seed).uniform(0.1, 1, points)), gappy(seed, 3, points)
    assert np.array_equal(resample(rows, grid, grid), rows, equal_nan=True)
    assert resample(rows[:0], grid, grid).shape == (0, points)


def test_between_a_gap_and_its_neighbor_nothing_was_observed() -> None:
    found = resample(torch.tensor([[1.0, torch.nan, 3.0, 4.0]]), [0, 1, 2, 3], [0.0, 0.5, 1.5, 2.0, 2.5, 3.5])
    assert torch.equal(found.isnan(), torch.tensor([[False, True, True, False, False, True]]))
    assert found[0, 4] == 3.5


def test_a_common_grid_is_inside_all_grids() -> None:
    first, second = np.linspace(900, 1700, 50), np.linspace(2500, 1000.5, 80)
    grid = common_grid(first, second, channels=10)
    assert grid[0] == 1000.5
    assert grid[-1] == 1700
    assert np.allclose(np.diff(grid), (1700 - 1000.5) / 9)
    assert not np.isnan(resample(np.ones((1, 80)), second, grid)).any()
    assert isinstance(common_grid(torch.tensor(first), channels=3), torch.Tensor)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: resample(np.zeros((1, 3)), [0, 1], [0]), ShapeError, "a point for each of the 3 columns; got 2"),
        (lambda: resample(np.zeros((1, 3)), [0, 2, 1], [0]), InvalidValueError, "only rise or only fall"),
        (lambda: resample(np.zeros((1, 3)), [0, 1, 1], [0]), InvalidValueError, "drop what is there twice"),
        (lambda: resample(np.zeros((1, 3)), [0, 1, nan], [0]), InvalidValueError, "only rise or only fall"),
        (lambda: resample(np.zeros((1, 3)), [0, 1, 2], [nan]), ShapeError, "`onto` must be points"),
        (lambda: common_grid([0, 1], [2, 3], channels=4), InvalidValueError, "`grids` must overlap"),
        (lambda: common_grid([0, 1], channels=1), InvalidValueError, "`channels` must be at least 2"),
        (lambda: common_grid(channels=3), InvalidValueError, "at least one grid"),
    ],
)  # fmt: skip
def test_grids_without_meaning_are_refused(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()
