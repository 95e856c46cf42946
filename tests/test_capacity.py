"""How much a network holds."""

from math import cosh, log

import numpy as np
import pytest
import torch

import ahop
from ahop.errors import InvalidTypeError, InvalidValueError
from ahop.paper.capacity import basin, capacity
from tests.test_criteria import Echo

AS_THEY_ARE = ahop.NoisyVariant(1e-6)


def signs(count: int, dimensions: int, seed: int = 0) -> torch.Tensor:
    return 2.0 * torch.randint(0, 2, (count, dimensions), generator=torch.Generator().manual_seed(seed)) - 1


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


# Networks of signs.


@pytest.mark.slow
def test_hopfields_network_holds_a_seventh_of_its_neurons() -> None:
    """.138 d in the limit of many neurons. The edge of a few is soft: 99 of 100 answers are right below, 90 above."""

    def share(d: int, target: float) -> float:
        limits = [
            capacity(ahop.zoo.hop, signs(d // 3, d, seed), AS_THEY_ARE, target=target, queries=100) for seed in range(3)
        ]
        return float(np.mean([limit.value for limit in limits])) / d

    assert share(100, 0.99) == pytest.approx(0.138, abs=0.03)
    assert share(200, 0.99) == pytest.approx(0.138, abs=0.02)
    assert share(200, 0.9) == pytest.approx(0.138, abs=0.02)


@pytest.mark.slow
def test_an_exponential_network_holds_exponentially_many() -> None:
    """The others weigh N (cosh 1)^d together and the origin e^d, so that N grows as e^(1 - ln cosh 1) per neuron."""
    sizes = [8, 10, 12, 14, 16]
    held = [
        [capacity(ahop.zoo.e_hop, signs(4096, d, s), AS_THEY_ARE, target=0.9, queries=60).value for s in range(3)]
        for d in sizes
    ]
    slope, _ = np.polyfit(sizes, np.log(held).mean(-1), 1)
    assert slope == pytest.approx(1 - log(cosh(1)), abs=0.12)


@pytest.mark.parametrize("dimensions", [12, 30])
def test_the_order_of_capacities_is_that_of_the_literature(dimensions: int) -> None:
    networks = (ahop.zoo.hop, ahop.zoo.d_hop, ahop.zoo.e_hop)
    held = [
        capacity(network, signs(300, dimensions), AS_THEY_ARE, target=0.9, queries=24).value for network in networks
    ]
    assert held[0] < held[1] <= held[2]
    assert held[0] < 0.4 * dimensions


def test_a_basin_of_signs_is_one_of_attraction() -> None:
    """Overloaded, no pattern attracts anything, though the nearest of them can still be told."""
    few, many = ahop.zoo.hop(signs(3, 100)), ahop.zoo.hop(signs(40, 100))

    def flipped(share: float) -> ahop.variants.MaskedVariant:
        return ahop.variants.MaskedVariant(share)

    assert basin(few, flipped, target=0.9, queries=20, tolerance=0.2).value > 0.5
    assert basin(many, flipped, target=0.9, queries=20, tolerance=0.2).value == 0


def test_a_dynamics_may_be_chosen() -> None:
    """Neurons that act on themselves hold every pattern in place, the better the more there are."""
    own = ahop.dynamics.SignDynamics()
    held = capacity(ahop.zoo.hop, signs(100, 50), AS_THEY_ARE, target=0.5, queries=50, dynamics=own)
    assert held.reached_end
    rested = capacity(
        ahop.zoo.m_hop,
        signs(200, 20),
        ahop.NoisyVariant(0.5),
        target=0.9,
        queries=100,
        dynamics=ahop.dynamics.Readout(),
    )
    assert rested.value >= 100
    with pytest.raises(InvalidTypeError, match="`network` must be of the kind AssociativeMemory; got Echo"):
        capacity(Echo, signs(9, 9), AS_THEY_ARE, dynamics=own)
