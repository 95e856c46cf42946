"""The energy theorem for sorted similarities, which the paper proves for unsorted ones only."""

import os
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.testing import assert_close

import ahop
from ahop.errors import InvalidTypeError, UnsupportedError
from ahop.fitting import ConvexSolver
from ahop.paper.dynamics import RankedReadout, Readout, iterate
from ahop.similarities import AdaptiveSimilarity, FootprintSimilarity

# Relative to the size of the energy: what rounding in float64 may do, and no more.
ROUNDING = 1e-9
# How many cases are tried; `AHOP_EXAMPLES=10000 pytest tests/paper/test_ranked_readout.py` takes minutes.
EXAMPLES = int(os.environ.get("AHOP_EXAMPLES", "200"))


def memory_of(patterns: Tensor, distance: Tensor, product: Tensor | None, beta: float = 1.0) -> ahop.AssociativeMemory:
    """A memory with these weights of subspace sizes."""
    similarity: AdaptiveSimilarity | FootprintSimilarity
    if product is None:
        similarity = FootprintSimilarity(ahop.EuclideanSimilarity(), patterns.shape[1]).double()
        similarity.set_mixture(distance)
    else:
        similarity = AdaptiveSimilarity(patterns.shape[1]).double()
        similarity.set_mixture(torch.cat([distance, product]))
    return ahop.AssociativeMemory(patterns, similarity, ahop.Softmax(beta))


def largest_rise(
    memory: ahop.AssociativeMemory, queries: Tensor, steps: int, dynamics: ahop.dynamics.Dynamics
) -> float:
    """By how much a step raised the energy, relative to its size."""
    with torch.no_grad():
        energies, states = [memory.energy(queries)], queries
        for _ in range(steps):
            states = dynamics.step(memory, states)
            energies.append(memory.energy(states))
    history = torch.stack(energies)
    size = 1 + history.abs().amax(0)
    return float(((history[1:] - history[:-1]) / size).max())


def case_of(
    seed: int, count: int, dimensions: int, batch: int, exponent: int, beta: float, has_ties: bool, has_product: bool
) -> tuple[ahop.AssociativeMemory, Tensor]:
    """A memory with falling weights, some of them equal and some zero, and queries."""
    generator, scale = np.random.default_rng(seed), 10.0**exponent

    def drawn(*shape: int) -> Tensor:
        values = generator.integers(-2, 3, shape) if has_ties else generator.normal(size=shape)
        return torch.from_numpy(scale * values)

    def falling(last: float) -> Tensor:
        weights = generator.exponential(size=dimensions) * generator.integers(0, 2, dimensions)
        weights[-1] = last
        return torch.from_numpy(weights / scale**2)

    distance = falling(float(generator.integers(0, 2)))
    product = falling(generator.normal()) if has_product else None
    return memory_of(drawn(count, dimensions), distance, product, beta), drawn(batch, dimensions)


cases = given(
    seed=st.integers(0, 2**63),
    count=st.integers(1, 12),
    dimensions=st.integers(1, 9),
    batch=st.integers(1, 4),
    exponent=st.integers(-3, 3),
    beta=st.sampled_from([0.1, 1.0, 10.0]),
    has_ties=st.booleans(),
    has_product=st.booleans(),
)


@cases
@settings(max_examples=EXAMPLES, deadline=None)
def test_no_step_raises_the_energy(**case: Any) -> None:
    memory, queries = case_of(**case)
    assert RankedReadout().descends(memory)
    assert largest_rise(memory, queries, 2, RankedReadout()) <= ROUNDING


def test_the_plain_readout_does_raise_it() -> None:
    """The theorem is about this step: the answer as the next state has no such promise."""
    generator = torch.Generator().manual_seed(0)
    rises = []
    for _ in range(40):
        patterns = torch.randn(6, 5, generator=generator, dtype=torch.float64)
        weights = torch.rand(2, 5, generator=generator, dtype=torch.float64)
        memory = memory_of(patterns, weights[0], 3 * weights[1])
        rises.append(largest_rise(memory, torch.randn(4, 5, generator=generator, dtype=torch.float64), 3, Readout()))
    assert max(rises) > 0.1


def test_with_equal_weights_and_no_product_it_is_the_plain_readout() -> None:
    patterns = torch.randn(7, 4, dtype=torch.float64)
    weights = torch.tensor([0.0, 0.0, 0.0, 1.0], dtype=torch.float64)
    memory = memory_of(patterns, weights, None)
    queries = torch.randn(3, 4, dtype=torch.float64)
    torch.testing.assert_close(RankedReadout().step(memory, queries), Readout().step(memory, queries))


def test_the_step_is_the_formula() -> None:
    patterns = torch.randn(5, 3, dtype=torch.float64)
    memory = memory_of(patterns, torch.tensor([0.5, 0.2, 0.3]).double(), torch.tensor([0.1, 0.4, -0.2]).double())
    query = torch.randn(3, dtype=torch.float64)
    weights = memory.weights(query.unsqueeze(0))[0].detach()
    rank_u, rank_v = torch.tensor([1.0, 0.5, 0.3]).double(), torch.tensor([0.3, 0.2, -0.2]).double()
    expected = torch.empty(3, dtype=torch.float64)
    for i in range(3):
        above = below = 0.0
        for k in range(5):
            distances, products = -((query - patterns[k]) ** 2), query * patterns[k]
            u = float(rank_u[int((distances > distances[i]).sum())])
            v = float(rank_v[int((products > products[i]).sum())])
            above += float(weights[k]) * (u + v / 2) * float(patterns[k, i])
            below += float(weights[k]) * u
        expected[i] = above / below
    torch.testing.assert_close(RankedReadout().step(memory, query.unsqueeze(0))[0], expected)


def test_a_monotone_fit_descends_and_costs_little() -> None:
    patterns = 2 * torch.rand(200, 16) - 1
    variant = ahop.MixedVariant(0.3, 0.2, 0.2, signs="per_query")
    pairs, test = variant.sample(patterns, 400), variant.sample(patterns, 500, seed=9)
    memory = ahop.zoo.a_hop(patterns)
    free = ahop.fit(memory, pairs=pairs, progress=False)
    kept = ahop.fit(memory, pairs=pairs, solver=ConvexSolver(monotone=True), progress=False)
    assert RankedReadout().descends(kept)
    assert isinstance(kept.similarity, AdaptiveSimilarity)
    assert kept.similarity.coefficients[:16].diff().max() <= 0
    assert ahop.evaluate(kept, test).accuracy > ahop.evaluate(free, test).accuracy - 0.03
    path = iterate(kept, test.queries[:50], RankedReadout(), max_steps=20)
    assert path.energies is not None
    assert float(path.energies.double().diff(dim=0).max()) < 1e-4, "in float32"


def test_where_weights_fall_anyway_the_monotone_fit_is_the_free_one() -> None:
    """One dimension: nothing is sorted, and the optimum is inside the cone."""
    patterns = torch.linspace(-1, 1, 9).unsqueeze(-1)
    pairs = ahop.NoisyVariant(0.2).sample(patterns, 300)
    memory = ahop.zoo.a_hop(patterns, [ahop.EuclideanSimilarity()])
    free = ahop.fit(memory, pairs=pairs, progress=False)
    kept = ahop.fit(memory, pairs=pairs, solver=ConvexSolver(monotone=True), progress=False)
    torch.testing.assert_close(kept.scores(pairs.queries), free.scores(pairs.queries), rtol=1e-3, atol=1e-3)


def test_nothing_is_claimed_where_nothing_is_proven() -> None:
    patterns = torch.randn(5, 3, dtype=torch.float64)
    rising = memory_of(patterns, torch.tensor([-0.1, 0.2, 1.0]).double(), None)
    below_zero = memory_of(patterns, torch.tensor([3.0, 0.2, -0.1]).double(), None)
    assert not RankedReadout().descends(rising)
    assert not RankedReadout().descends(below_zero)
    assert not RankedReadout().descends(ahop.zoo.m_hop(patterns))


def test_gaps_are_filled_by_the_plain_readout_and_nothing_is_claimed_for_patterns_with_gaps() -> None:
    patterns = torch.randn(5, 3, dtype=torch.float64)
    memory = memory_of(patterns, torch.tensor([0.2, 0.2, 1.0]).double(), None)
    queries = torch.tensor([[0.1, torch.nan, 0.3], [0.1, 0.2, 0.3]], dtype=torch.float64)
    moved = RankedReadout().step(memory, queries)
    torch.testing.assert_close(moved[:1], Readout().step(memory, queries[:1]))
    torch.testing.assert_close(moved[1:], RankedReadout().step(memory, queries[1:]))
    patterns[0, 1] = torch.nan
    gapped = memory_of(patterns, torch.tensor([0.2, 0.2, 1.0]).double(), None)
    assert not RankedReadout().descends(gapped)
    assert bool(RankedReadout().step(gapped, queries).isfinite().all())


def test_what_it_cannot_do_it_refuses() -> None:
    patterns = torch.randn(5, 3)
    with pytest.raises(InvalidTypeError, match="needs a footprint of the Euclidean"):
        RankedReadout().step(ahop.zoo.m_hop(patterns), patterns)
    with pytest.raises(InvalidTypeError, match="needs a footprint of the Euclidean"):
        RankedReadout().step(ahop.zoo.a_hop(patterns, [ahop.DotSimilarity()]), patterns)
    kernel = ahop.AssociativeMemory(patterns, AdaptiveSimilarity(3), modulation=ahop.modulations.KernelModulation(3))
    assert not RankedReadout().descends(kernel)
    with pytest.raises(InvalidTypeError, match="patterns as they are"):
        RankedReadout().step(kernel, patterns)
    unsorted = ahop.AssociativeMemory(patterns, ahop.similarities.UnifiedSimilarity(3))
    with pytest.raises(UnsupportedError, match="monotone"):
        ahop.fit(
            unsorted, variant=ahop.NoisyVariant(0.1), solver=ConvexSolver(monotone=True), samples=20, progress=False
        )


def test_states_rest_beyond_the_pattern_and_answers_at_it() -> None:
    pattern = torch.tensor([[0.5, -0.3, 0.8, 0.1]])
    memory = ahop.zoo.a_hop(pattern)
    path = ahop.iterate(memory, torch.tensor([[0.4, -0.2, 0.7, 0.2]]), ahop.dynamics.RankedReadout())
    assert_close(path.states[-1], 1.5 * pattern)
    assert_close(path.answers, pattern)
