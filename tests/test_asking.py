"""Queries that are worth a label."""

import pytest
import torch

import ahop
from ahop.errors import InvalidValueError


@pytest.fixture(scope="module")
def asked() -> tuple[ahop.AssociativeMemory, torch.Tensor]:
    patterns = torch.randn(50, 8, generator=torch.Generator().manual_seed(0))
    log = ahop.MixedVariant(0.4, 0.4, 0.4).sample(patterns, 200, seed=1).queries
    return ahop.AssociativeMemory(patterns, ahop.EuclideanSimilarity()), log


@pytest.mark.parametrize("k", [1, 2, 7, 20, 200])
def test_every_degree_of_sureness_has_one(asked: tuple[ahop.AssociativeMemory, torch.Tensor], k: int) -> None:
    memory, log = asked
    rows = ahop.ask(memory, log, k)
    assert len(set(rows.tolist())) == k
    place = memory.recall(log).posterior[:, 0].argsort(stable=True).argsort()[rows]
    assert sorted((place * k // 200).tolist()) == list(range(k))


def test_the_first_few_are_spread_as_well(asked: tuple[ahop.AssociativeMemory, torch.Tensor]) -> None:
    memory, log = asked
    place = memory.recall(log).posterior[:, 0].argsort(stable=True).argsort()[ahop.ask(memory, log, 16)]
    assert sorted((place[:4] // 50).tolist()) == [0, 1, 2, 3]


def test_origins_differ_where_they_can(asked: tuple[ahop.AssociativeMemory, torch.Tensor]) -> None:
    memory, log = asked
    answers = memory.recall(log).indices[:, 0]
    chosen = set(answers[ahop.ask(memory, log, 20)].tolist())
    assert len(chosen) >= 18


def test_more_than_there_are_is_refused(asked: tuple[ahop.AssociativeMemory, torch.Tensor]) -> None:
    with pytest.raises(InvalidValueError, match="at most 200"):
        ahop.ask(*asked, k=201)


def test_arrays_and_groups_are_taken(asked: tuple[ahop.AssociativeMemory, torch.Tensor]) -> None:
    memory, log = asked
    assert torch.equal(ahop.ask(memory, log.numpy(), 5, groups=["a"] * 200), ahop.ask(memory, log, 5))


def test_twenty_labels_beside_a_log_check_probabilities() -> None:
    patterns = torch.rand(200, 32, generator=torch.Generator().manual_seed(0))
    pairs = ahop.MixedVariant(0.4, 0.4, 0.4, seed=0).sample(patterns, 300, seed=1)
    memory = ahop.fit(patterns, queries=pairs.queries, similarity="mixture", progress=False)
    assert not memory.model.is_checked
    rows = ahop.ask(memory, pairs.queries)
    labeled = ahop.Pairs(pairs.origins[rows], pairs.queries[rows])
    checked = ahop.fit(patterns, pairs=labeled, queries=pairs.queries, similarity="mixture", progress=False)
    assert checked.model.is_checked
    few = ahop.Pairs(labeled.origins[:19], labeled.queries[:19])
    assert not ahop.fit(
        patterns, pairs=few, queries=pairs.queries, similarity="mixture", progress=False
    ).model.is_checked
