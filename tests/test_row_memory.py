"""Memories of rows: who votes, with which weight, and what is kept."""

import numpy as np
import torch
from sklearn.datasets import load_breast_cancer
from torch import Generator, Tensor

from ahop.estimators import PrototypeClassifier
from ahop.estimators._row_memory import DRAWN, RowMemory, distinct


def rows_and_codes(count: int) -> tuple[Tensor, Tensor]:
    torch.manual_seed(0)
    return torch.randn(count, 5), torch.arange(count) % 3


def test_shares_of_the_classes_add_up_to_one() -> None:
    rows, codes = rows_and_codes(40)
    memory = RowMemory(5, 4, 3)
    memory.store(rows, codes, torch.ones(40))
    torch.testing.assert_close(memory(rows[:7]).exp().sum(-1), torch.ones(7), rtol=0, atol=1e-4)


def test_a_row_has_no_vote_on_itself() -> None:
    rows, codes = rows_and_codes(30)
    memory, asked = RowMemory(5, None, 3), torch.tensor([4])
    other = codes.clone()
    other[4] = (codes[4] + 1) % 3
    said, said_otherwise = (
        memory.without_themselves(asked, rows, each, torch.ones(30), Generator().manual_seed(0))
        for each in (codes, other)
    )
    torch.testing.assert_close(said, said_otherwise)


def test_rows_without_themselves_are_asked_of_all_others() -> None:
    rows, codes = rows_and_codes(30)
    assert len(rows) <= DRAWN
    memory, others = RowMemory(5, 4, 3), torch.arange(1, 30)
    said = memory.without_themselves(torch.tensor([0]), rows, codes, torch.ones(30), Generator())
    memory.store(rows[others], codes[others], torch.ones(29))
    torch.testing.assert_close(said, memory(rows[:1]))


def test_a_weight_of_three_is_three_votes() -> None:
    rows, codes = rows_and_codes(12)
    weighed, copied = RowMemory(5, None, 3), RowMemory(5, None, 3)
    weights = torch.ones(12)
    weights[2] = 3
    weighed.store(rows, codes, weights)
    thrice = torch.cat([torch.arange(12), torch.tensor([2, 2])])
    copied.store(rows[thrice], codes[thrice], torch.ones(14))
    torch.testing.assert_close(weighed(rows), copied(rows))


def test_gaps_are_at_the_mean() -> None:
    rows, codes = rows_and_codes(12)
    memory = RowMemory(5, None, 3)
    memory.store(rows, codes, torch.ones(12))
    torch.testing.assert_close(memory(torch.full((1, 5), torch.nan)), memory(torch.zeros(1, 5)))


def test_rows_that_come_later_are_kept_beside_the_earlier_ones() -> None:
    X, y = load_breast_cancer(return_X_y=True)
    model = PrototypeClassifier(4, n_members=1, n_row_memories=1, random_state=0)
    for part in (slice(0, 300), slice(300, 569), slice(0, 300)):
        model.partial_fit(X[part], y[part], classes=[0, 1])
    memory = model.network_.members[-1]
    assert isinstance(memory, RowMemory)
    assert len(memory.stored) == len(X)
    assert memory.log_weights.exp().sum() == len(X) + 300
    assert model.score(X, y) > 0.9


def test_equal_rows_are_joined_and_found_again() -> None:
    rows, codes = np.array([[1.0], [2.0], [1.0], [1.0]]), np.array([0, 0, 0, 1])
    first, places = distinct(rows, codes, np.ones(4))
    np.testing.assert_array_equal(first.rows[places], rows)
    np.testing.assert_array_equal(first.codes[places], codes)
    both, later = first.joined(first)
    np.testing.assert_array_equal(both.weights[later], 2 * first.weights)
