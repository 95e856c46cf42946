"""Every similarity and every separation, over batches: each sample on its own, and what the mask allows alone."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.testing import assert_close

import ahop
from ahop.nn import Association
from ahop.separations.base import Separation
from tests.catalogue import MODULATIONS, SEPARATIONS, SIMILARITIES
from tests.strategies import FEW, problem, seeds

every_similarity = pytest.mark.parametrize("name", SIMILARITIES)
every_separation = pytest.mark.parametrize("separation", SEPARATIONS, ids=repr)
# A separation sees scores alone: each similarity is tried with one of them in turn, and each of them with adaptive.
PAIRS = [(name, SEPARATIONS[number % len(SEPARATIONS)]) for number, name in enumerate(SIMILARITIES)]
every_part = pytest.mark.parametrize(
    ("name", "separation"), [*PAIRS, *(("adaptive", separation) for separation in SEPARATIONS)], ids=repr
)
COUNT, DIMENSIONS, BATCH = 6, 4, 3


def data(samples: int = 3, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Queries (samples, b, d) and patterns (samples, n, d) of moderate size: no separation overflows."""
    cases = [problem(COUNT, DIMENSIONS, BATCH, seed + number) for number in range(samples)]
    return torch.stack([case.queries for case in cases]), torch.stack([case.patterns for case in cases])


def some(*shape: int, seed: int = 0) -> Tensor:
    """A mask in which every row has at least one pattern."""
    mask = torch.rand(shape, generator=torch.Generator().manual_seed(seed)) < 0.5
    mask[..., 0] = True
    return mask


@every_part
def test_an_association_is_the_memory_of_each_sample(name: str, separation: Separation) -> None:
    queries, patterns = data(samples=2)
    values = torch.randn(2, COUNT, 2, dtype=torch.float64)
    similarity = SIMILARITIES[name](DIMENSIONS, COUNT)
    association = Association(similarity, separation)
    found = association.associate(queries, patterns, values)
    for sample in range(2):
        memory = ahop.AssociativeMemory(patterns[sample], similarity, separation)
        weights = memory.weights(queries[sample])
        assert_close(found.weights[sample], weights, rtol=1e-6, atol=1e-9)
        assert_close(found.retrieved[sample], weights @ values[sample], rtol=1e-6, atol=1e-9)
        if not isinstance(similarity, ahop.DotSimilarity):
            assert_close(found.energies[sample], memory.energy(queries[sample]), rtol=1e-6, atol=1e-9)
    assert_close(association(queries, patterns, values), found.retrieved, rtol=1e-6, atol=1e-9)


@every_part
def test_what_is_masked_might_as_well_not_be_there(name: str, separation: Separation) -> None:
    queries, patterns = data(samples=1)
    kept = torch.tensor([0, 2, 3])
    mask = torch.zeros(COUNT, dtype=torch.bool).index_fill(0, kept, True)
    similarity = SIMILARITIES[name](DIMENSIONS, COUNT)
    masked = Association(similarity, separation).weights(queries, patterns, mask)
    alone = Association(similarity.rows(kept), separation).weights(queries, patterns[:, kept])
    assert_close(masked[..., kept], alone, rtol=1e-6, atol=1e-9)
    assert not masked[..., ~mask].any()


@every_part
def test_a_query_that_may_see_nothing_gets_zeros_and_finite_gradients(name: str, separation: Separation) -> None:
    queries, patterns = (each.requires_grad_() for each in data(samples=2))
    mask = some(2, BATCH, COUNT)
    mask[0, 1] = False
    mask[1] = False
    association = Association(SIMILARITIES[name](DIMENSIONS, COUNT), separation)
    retrieved = association(queries, patterns, mask=mask)
    assert not retrieved[0, 1].any()
    assert not retrieved[1].any()
    assert bool(retrieved.isfinite().all())
    leaves = [queries, patterns, *association.parameters()]
    slopes = torch.autograd.grad(retrieved.square().sum(), leaves, allow_unused=True)
    assert all(bool(each.isfinite().all()) for each in slopes if each is not None)
    assert slopes[0] is None or not slopes[0][1].any()
    alone = association(queries[:1, 2:], patterns[:1], mask=mask[:1, 2:])
    assert_close(retrieved[:1, 2:], alone)


@every_separation
@given(
    count=st.integers(1, 4),
    dimensions=st.integers(1, 4),
    batch=st.integers(0, 3),
    samples=st.integers(0, 2),
    share=st.sampled_from([0.0, 0.5, 1.0]),
    updates=st.sampled_from([0, 2]),
    seed=seeds,
)
@settings(max_examples=FEW)
def test_small_sizes_are_no_corner(
    separation: Separation, count: int, dimensions: int, batch: int, samples: int, share: float, updates: int, seed: int
) -> None:
    """One pattern, one dimension, no query, no sample, nothing allowed."""
    generator = torch.Generator().manual_seed(seed)
    queries = torch.randn(samples, 2, batch, dimensions, generator=generator, requires_grad=True)
    patterns = torch.randn(samples, 2, count, dimensions, generator=generator, requires_grad=True)
    mask = torch.rand(samples, 1, batch, count, generator=generator) < share
    for similarity in (ahop.DotSimilarity(), ahop.AdaptiveSimilarity(dimensions)):
        association = Association(similarity, separation, updates=updates if separation.is_distribution else 0)
        retrieved = association(queries, patterns, mask=mask)
        assert retrieved.shape == queries.shape
        assert bool(retrieved.isfinite().all())
        assert not retrieved[(~mask.any(-1)).expand(samples, 2, batch)].any()
        slopes = torch.autograd.grad(retrieved.sum(), [queries, patterns], allow_unused=True)
        assert all(bool(each.isfinite().all()) for each in slopes if each is not None)


@pytest.mark.parametrize("modulation", MODULATIONS)
@pytest.mark.parametrize("scaling", [0.7, [0.5, 2.0]], ids=str)
@pytest.mark.parametrize("updates", [0, 3])
@pytest.mark.parametrize("given_mask", ["none", "mask", "prior", "both"])
def test_the_fused_form_is_the_readable_one(
    modulation: str, scaling: float | list[float], updates: int, given_mask: str
) -> None:
    queries, patterns = (torch.stack([each, each.flip(1)], dim=1) for each in data())
    values = torch.randn(3, 2, COUNT, 2, dtype=torch.float64)
    mask = some(3, 1, BATCH, COUNT) if given_mask in ("mask", "both") else None
    prior = None
    if given_mask in ("prior", "both"):
        prior = torch.randn(2, BATCH, COUNT, dtype=torch.float64)
        prior[..., -1] = -torch.inf
    parts = ahop.DotSimilarity(), ahop.Softmax(1.3), MODULATIONS[modulation](DIMENSIONS)
    association = Association(*parts, scaling=scaling, updates=updates)
    fused = association(queries, patterns, values, mask, prior)
    assert_close(fused, association.associate(queries, patterns, values, mask, prior).retrieved)
    assert_close(fused, association.weights(queries, patterns, mask, prior) @ values)


@pytest.mark.parametrize("name", ["dot", "euclidean", "adaptive", "unified"])
@pytest.mark.parametrize(
    "separation", [ahop.Softmax(2.0), ahop.separations.Sparsemax(), ahop.separations.Entmax()], ids=repr
)
@pytest.mark.parametrize("updates", [None, 5])
def test_no_sample_and_no_query_waits_for_the_others(name: str, separation: Separation, updates: int | None) -> None:
    queries, patterns = data(samples=5)
    association = Association(SIMILARITIES[name](DIMENSIONS, COUNT), separation, updates=updates, tolerance=1e-2)
    together = association.associate(queries, patterns)
    assert len(set(together.updates.flatten().tolist())) > 1
    for sample in range(5):
        for query in range(BATCH):
            alone = association.associate(queries[sample, query][None], patterns[sample])
            assert_close(together.weights[sample, query], alone.weights[0])
            assert together.updates[sample, query] == alone.updates[0]


@every_separation
@pytest.mark.parametrize("scaling", [0.1, 1.0, 10.0])
def test_what_was_not_observed_says_as_little_at_any_scale(separation: Separation, scaling: float) -> None:
    (queries,), (patterns,) = (each.clone() for each in data(samples=1))
    queries[1] = torch.nan  # nothing is known of this query
    patterns[2, 1:] = torch.nan
    queries[2, :1] = torch.nan  # and this one shares nothing with that pattern
    weights = Association(separation=separation, scaling=scaling).weights(queries, patterns)
    assert bool(weights.isfinite().all())
    assert weights[2, 2] == 0
    assert_close(weights[1], weights[1, :1].expand(COUNT))
    if not separation.is_distribution:
        assert not weights[1].any()


def test_states_settle_at_fixed_points_and_energies_fall() -> None:
    queries, patterns = data()
    energies = []
    for updates in range(6):
        association = Association(ahop.DotSimilarity(), ahop.Softmax(2.0), scaling=1.5, updates=updates)
        energies.append(association.associate(queries, patterns).energies)
    falls = torch.stack(energies).diff(dim=0)
    assert float(falls.max()) < 1e-9
    assert float(falls.sum()) < -0.1
    at_rest = Association(ahop.DotSimilarity(), ahop.Softmax(2.0), scaling=1.5, updates=None, tolerance=1e-9)
    found = at_rest.associate(queries, patterns)
    assert_close(found.weights @ patterns, found.states, rtol=1e-6, atol=1e-6)


@every_similarity
def test_one_similarity_for_each_head_is_a_loop_over_the_heads(name: str) -> None:
    queries, patterns = data(samples=2)
    similarities = [SIMILARITIES[name](DIMENSIONS, COUNT), ahop.DotSimilarity()]
    association = Association(similarities, scaling=[1.0, 3.0])
    both = association.weights(queries.unsqueeze(0), patterns.unsqueeze(0))
    for head, (similarity, scaling) in enumerate(zip(similarities, (1.0, 3.0), strict=True)):
        alone = Association(similarity, scaling=scaling).weights(queries[head], patterns[head])
        assert_close(both[0, head], alone)


@pytest.mark.parametrize("name", ["dot", "euclidean", "unified", "adaptive", "adaptive, three bases", "isolated"])
@pytest.mark.parametrize("updates", [0, 1])
def test_gradcheck(name: str, updates: int) -> None:
    queries, patterns = (each.requires_grad_() for each in data(samples=2))
    association = Association(SIMILARITIES[name](DIMENSIONS, COUNT), scaling=0.3, updates=updates).double()
    mask = some(2, BATCH, COUNT)

    def retrieve(queries: Tensor, patterns: Tensor) -> Tensor:
        return association(queries, patterns, mask=mask)

    assert torch.autograd.gradcheck(retrieve, (queries, patterns), fast_mode=True)
