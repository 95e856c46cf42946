"""Similarities that somebody else has computed, as evidence in linking tables."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import ahop
from ahop.errors import InvalidTypeError, InvalidValueError, ShapeError, UnsupportedError
from ahop.operate.linking import comparisons as module
from ahop.operate.linking.comparisons import Compared, weigh
from tests.strategies import seeds

ROWS, SHARED = 120, 90


class Offices:
    """Two tables of few numbers that say little, and names that say more; three right rows in ten are of nobody."""

    def __init__(self, seed: int = 0, names: int = 60) -> None:
        rng = np.random.default_rng(seed)
        sources = rng.normal(size=(2 * ROWS, 2)).astype(np.float32)
        called = rng.integers(0, names, 2 * ROWS)
        order = rng.permutation(np.concatenate([np.arange(SHARED), ROWS + np.arange(ROWS - SHARED)]))
        self.left = sources[:ROWS]
        self.right = sources[order] + 0.1 * rng.normal(size=(ROWS, 2)).astype(np.float32)
        self.origins = np.where(order < ROWS, order, -1)
        of_left, of_right = called[:ROWS], called[order].copy()
        is_wrong = rng.random(ROWS) < 0.1
        of_right[is_wrong] = rng.integers(0, names, is_wrong.sum())
        alike = 1 - np.minimum(np.abs(of_right[:, None] - of_left) / 10, 1)
        self.names = np.where(of_right[:, None] == of_left, 1.0, 0.8 * alike)

    def right_share(self, links: Any) -> float:
        return float((links.linked == self.origins).mean())


def test_names_tell_rows_apart_that_numbers_do_not() -> None:
    offices = Offices()
    memory = ahop.fit(offices.left, queries=offices.right, progress=False)
    alone = ahop.link(memory, offices.right, progress=False)
    links = ahop.link(memory, offices.right, comparisons={"name": offices.names}, progress=False)
    assert offices.right_share(links) >= offices.right_share(alone) + 0.1
    found = links.comparisons["name"] if links.comparisons else None
    assert found is not None
    assert found.log_odds[-1] >= 2
    assert found.together.sum() == pytest.approx(1)
    assert found.apart.sum() == pytest.approx(1)
    assert found.together[-1] >= 0.7
    assert (np.diff(found.least[1:]) > 0).all()


def test_what_could_not_be_compared_changes_nothing() -> None:
    offices = Offices(1)
    memory = ahop.fit(offices.left, queries=offices.right, progress=False)
    alone = ahop.link(memory, offices.right, progress=False)
    gaps = np.full(offices.names.shape, np.nan)
    links = ahop.link(memory, offices.right, comparisons={"name": gaps, "same": np.ones_like(gaps)}, progress=False)
    is_likely = alone.probability > 0.5  # less likely links hang on which of equally bad candidates are among the best
    assert is_likely.sum() >= 20
    kept = alone.right[is_likely]
    np.testing.assert_array_equal(links.linked[kept], alone.linked[kept])
    np.testing.assert_allclose(links.probability.sum(), alone.probability.sum(), rtol=1e-2)


def test_noise_is_learned_to_say_little() -> None:
    offices, rng = Offices(2), np.random.default_rng(0)
    memory = ahop.fit(offices.left, queries=offices.right, progress=False)
    noise = rng.random(offices.names.shape)
    alone = ahop.link(memory, offices.right, comparisons={"name": offices.names}, progress=False)
    links = ahop.link(memory, offices.right, comparisons={"name": offices.names, "noise": noise}, progress=False)
    assert offices.right_share(links) >= offices.right_share(alone) - 0.05


def test_agreement_on_a_rare_value_says_more() -> None:
    levels = np.zeros((200, 10))
    levels[:100, 0] = levels[:2, 1] = 1.0
    compared = Compared({"name": levels}, 200, 10)
    said = compared.log_ratio(slice(0, 1))[0]
    assert said[1] > said[0] + 3
    assert said[0] > said[2]


@given(st.integers(1, 8), st.integers(1, 8), seeds)
def test_posteriors_are_those_of_the_product(right: int, left: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    given_values = np.where(rng.random((right, left)) < 0.2, np.nan, rng.integers(0, 4, (right, left)) / 3)
    compared = Compared({"one": given_values, "other": rng.random((right, left))}, right, left)
    for apart, together in zip(compared.apart, compared.together, strict=True):
        torch.testing.assert_close(apart.sum(1), torch.ones(left, dtype=torch.float64))
        torch.testing.assert_close(together.sum(), torch.tensor(1.0, dtype=torch.float64))
    said = compared.log_ratio(slice(None))
    assert bool(said.isfinite().all())
    shares = torch.from_numpy(rng.dirichlet(np.ones(left), right)).float()
    weighed, gained = weigh(shares, said)
    product = shares.double() * said.double().exp()
    torch.testing.assert_close(weighed.double(), product / product.sum(1, keepdim=True), rtol=1e-3, atol=1e-6)
    torch.testing.assert_close(gained.double(), product.sum(1).log(), rtol=1e-3, atol=1e-3)


def test_rows_in_another_order_are_linked_the_same() -> None:
    offices, order = Offices(3), np.random.default_rng(0).permutation(ROWS)
    left, right = 20 * offices.left, 20 * offices.right  # far enough apart that nothing hangs on rounding
    links = ahop.link(ahop.AssociativeMemory(left), right, comparisons={"name": offices.names})
    others = ahop.link(ahop.AssociativeMemory(left[order]), right, comparisons={"name": offices.names[:, order]})
    np.testing.assert_array_equal(np.where(others.linked < 0, -1, order[others.linked]), links.linked)


def test_a_part_of_a_long_table_is_learned_from(monkeypatch: pytest.MonkeyPatch) -> None:
    offices = Offices(4)
    memory = ahop.fit(offices.left, queries=offices.right, progress=False)
    monkeypatch.setattr(module, "ROWS_LEARNED_FROM", 60)
    links = ahop.link(memory, offices.right, comparisons={"name": offices.names}, progress=False)
    assert offices.right_share(links) >= 0.75


@pytest.mark.parametrize("dtype", [np.float16, np.float64, np.int64, np.bool_])
def test_similarities_of_other_kinds(dtype: Any) -> None:
    rows: NDArray[np.float32] = np.arange(8, dtype=np.float32).reshape(4, 2)
    links = ahop.link(ahop.AssociativeMemory(rows), rows, comparisons={"name": np.eye(4).astype(dtype)}, progress=False)
    assert links.linked.tolist() == [0, 1, 2, 3]


def test_single_rows_and_empty_tables() -> None:
    memory = ahop.AssociativeMemory([[0.0, 1.0]])
    assert ahop.link(memory, [[0.1, 1.0]], comparisons={"name": [[0.5]]}).linked.tolist() == [0]
    empty = ahop.link(memory, np.empty((0, 2), np.float32), comparisons={"name": np.empty((0, 1))})
    assert len(empty) == 0


def test_frames_with_names_are_linked_by_their_similarities() -> None:
    offices = Offices(5)
    left = pd.DataFrame(offices.left, [f"L{row}" for row in range(ROWS)], ["x", "y"])
    right = pd.DataFrame(offices.right, [f"R{row}" for row in range(ROWS)], ["x", "y"])
    links = ahop.link(left, right, comparisons={"name": offices.names}, progress=False)
    assert set(links.left) <= set(left.index)
    assert offices.right_share(links) >= 0.7


def test_wrong_names_are_told_by_columns_and_comparisons_together() -> None:
    rng = np.random.default_rng(0)
    rows, names = rng.normal(size=(60, 2)).astype(np.float32), np.arange(60)
    alike = (names[:, None] == names).astype(float) + 0.3 * rng.random((60, 60))
    called = names.copy()
    called[[4, 9]] = called[[9, 4]]
    memory = ahop.AssociativeMemory(rows, labels=names)
    copies = rows + 0.5 * rng.normal(size=rows.shape).astype(np.float32)
    links = ahop.link(memory, copies, labels=called, comparisons={"name": alike})
    assert links.misnamed is not None
    assert sorted(links.misnamed.rows.tolist()) == [4, 9]
    assert links.comparisons is not None


@pytest.mark.parametrize(
    ("given_values", "error"),
    [
        ({}, InvalidTypeError),
        ({"name": np.eye(3)}, ShapeError),
        ({"name": np.full((4, 4), "a")}, InvalidTypeError),
        ({"name": np.full((4, 4), np.inf)}, InvalidValueError),
    ],
)
def test_what_is_no_similarity_is_refused(given_values: Any, error: type[Exception]) -> None:
    rows = np.arange(8, dtype=np.float32).reshape(4, 2)
    memory = ahop.AssociativeMemory(rows)
    with pytest.raises(error, match="comparisons"):
        ahop.link(memory, rows, comparisons=given_values)
    if error is ShapeError:
        with pytest.raises(UnsupportedError, match="Pass the memory"):
            ahop.link(ahop.index(memory), rows, comparisons={"name": np.eye(4)})
