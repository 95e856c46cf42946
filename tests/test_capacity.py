"""How much a network holds."""

import pytest
import torch

import ahop
from ahop.capacity import basin, capacity
from ahop.errors import InvalidValueError


def signs(count: int, dimensions: int) -> torch.Tensor:
    return 2.0 * torch.randint(0, 2, (count, dimensions), generator=torch.Generator().manual_seed(0)) - 1


def test_the_less_damage_the_more_patterns() -> None:
    patterns = signs(1000, 20)
    limits = [
        capacity(ahop.zoo.m_hop, patterns, ahop.NoisyVariant(v), target=0.9, queries=300) for v in (2.0, 1.0, 1e-6)
    ]
    assert 2 <= limits[0].value < limits[1].value < limits[2].value == 1000
    assert [limit.reached_end for limit in limits] == [False, False, True]


def test_what_was_found_is_the_edge() -> None:
    limit = capacity(ahop.zoo.m_hop, signs(1000, 20), ahop.NoisyVariant(1.0), target=0.9, queries=300)
    right = [count for count, accuracy in limit.accuracies.items() if accuracy >= 0.9]
    wrong = [count for count, accuracy in limit.accuracies.items() if accuracy < 0.9]
    assert limit.value == max(right) < min(wrong)
    assert min(wrong) - limit.value <= max(1, limit.value // 16)


def test_a_basin_ends_where_damage_becomes_too_much() -> None:
    memory = ahop.AssociativeMemory(signs(50, 30), ahop.EuclideanSimilarity())
    limit = basin(memory, lambda share: ahop.variants.MaskedVariant(share), target=0.9, queries=300)
    assert 0.4 < limit.value < 1
    assert not limit.reached_end
    assert list(limit.accuracies) == sorted(limit.accuracies)
    small = basin(memory, lambda share: ahop.variants.MaskedVariant(share), largest=0.1, target=0.9, queries=300)
    assert small.reached_end
    assert small.value == 0.1


def test_a_network_that_is_never_right_holds_nothing() -> None:
    twins = torch.ones(8, 5)
    assert capacity(ahop.zoo.m_hop, twins, ahop.NoisyVariant(1e-6), target=0.9, queries=50).value == 1
    assert basin(ahop.zoo.m_hop(twins), lambda share: ahop.NoisyVariant(1e-6 + share), target=0.9).value == 0


def test_a_target_is_a_share() -> None:
    with pytest.raises(InvalidValueError, match="must lie in"):
        capacity(ahop.zoo.m_hop, torch.ones(2, 2), ahop.NoisyVariant(0.1), target=2.0)
