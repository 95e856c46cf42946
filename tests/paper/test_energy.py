"""The energy theorem as it holds: [apd:proof-energy], [lem:rewrite], [lem:dec], [thm:energy]."""

from math import log

import pytest
import torch
from hypothesis import given
from torch import Tensor

from ahop import AdaptiveSimilarity, AssociativeMemory, EuclideanSimilarity, Softmax, iterate, zoo
from ahop.energies import QuadraticEnergy
from ahop.paper.dynamics import DebiasedReadout, GradientDescent, Readout
from ahop.separations import Sparsemax
from ahop.similarities import FootprintSimilarity, UnifiedSimilarity, optimal_for_biased, optimal_for_noisy
from tests.paper.worlds import few, gaussian, matrices, uniform_patterns, vectors

N, D = 5, 3
SLACK = 1e-9


def unified(patterns: Tensor, slope: Tensor) -> AssociativeMemory:
    """What the theorem is about: s = -|x - xi|^2 + b^T (x - xi), softmax."""
    return AssociativeMemory(patterns, optimal_for_biased(slope / 2))


def lse(values: Tensor) -> Tensor:
    return values.exp().sum(-1).log()


# --- lem:rewrite


@few
@given(matrices(N, D, 2.0), vectors(D, 2.0), matrices(4, D, 2.0))
def test_the_energy_is_a_square_minus_a_log_sum_of_exponentials(patterns: Tensor, b: Tensor, x: Tensor) -> None:
    A = 2 * patterns + b
    c = -patterns @ b - patterns.square().sum(-1)
    rewritten = x.square().sum(-1) - lse(x @ A.mT + c)
    torch.testing.assert_close(unified(patterns, b).energy(x), rewritten, rtol=1e-6, atol=1e-6)


def test_the_printed_rewriting_has_one_sign_and_one_term_too_many() -> None:
    patterns, b, x = uniform_patterns(N, D), torch.tensor([0.5, -1.0, 0.25], dtype=torch.float64), gaussian(4, D)
    energy = unified(patterns, b).energy(x)
    printed_c = patterns @ b - patterns.square().sum(-1)
    square = x.square().sum(-1)
    with_printed_sign = square - lse(x @ (2 * patterns + b).mT + printed_c)
    assert (energy - with_printed_sign).abs().min() > 0.01
    # Without a bias only the constant is left to differ.
    unbiased = unified(patterns, torch.zeros(D)).energy(x)
    rewritten = square - lse(x @ (2 * patterns).mT - patterns.square().sum(-1))
    torch.testing.assert_close(unbiased, rewritten)
    torch.testing.assert_close(log(N) + rewritten - unbiased, torch.full((4,), log(N), dtype=torch.float64))


# --- the gradient, and the step that it gives


def test_the_gradient_is_twice_the_state_minus_the_debiased_readout() -> None:
    patterns, b = uniform_patterns(N, D), torch.tensor([0.5, -1.0, 0.25], dtype=torch.float64)
    memory, x = unified(patterns, b), gaussian(4, D).requires_grad_()
    (slope,) = torch.autograd.grad(memory.energy(x).sum(), x)
    expected = 2 * x - b - 2 * memory.weights(x) @ patterns
    torch.testing.assert_close(slope, expected)


def test_gradient_descent_with_half_a_step_is_the_debiased_readout() -> None:
    memory, x = unified(uniform_patterns(N, D), torch.tensor([0.5, -1.0, 0.25])), gaussian(4, D)
    torch.testing.assert_close(GradientDescent(0.5).step(memory, x), DebiasedReadout.of(memory).step(memory, x))


def test_without_a_bias_the_debiased_readout_is_the_readout() -> None:
    memory, x = unified(uniform_patterns(N, D), torch.zeros(D)), gaussian(4, D)
    torch.testing.assert_close(Readout().step(memory, x), DebiasedReadout.of(memory).step(memory, x))


# --- lem:dec


@few
@given(matrices(N, D), vectors(D), matrices(4, D))
def test_the_debiased_readout_never_raises_the_energy(patterns: Tensor, b: Tensor, x: Tensor) -> None:
    memory = unified(patterns, b)
    dynamics = DebiasedReadout.of(memory)
    assert dynamics.descends(memory)
    energies = iterate(memory, x, dynamics, max_steps=10).energies
    assert energies is not None
    assert bool((energies.diff(dim=0) <= 1e-6 * (1 + energies[:-1].abs())).all())


@few
@given(matrices(N, D, 2.0), vectors(D, 2.0), matrices(4, D, 2.0))
def test_each_step_lies_under_the_convex_surrogate_that_touches_the_energy(
    patterns: Tensor, b: Tensor, x: Tensor
) -> None:
    """eqn:dec: E(x+) <= U(x+) <= U(x) = E(x), with -h replaced by its tangent at x."""
    memory = unified(patterns, b)
    A, c = 2 * patterns + b, -patterns @ b - patterns.square().sum(-1)
    after = DebiasedReadout.of(memory).step(memory, x)

    def surrogate(y: Tensor) -> Tensor:
        tangent = torch.softmax(x @ A.mT + c, dim=-1) @ A
        return y.square().sum(-1) - lse(x @ A.mT + c) - (tangent * (y - x)).sum(-1)

    before = memory.energy(x)
    torch.testing.assert_close(surrogate(x), before, rtol=1e-6, atol=1e-6)
    assert bool((surrogate(after) <= before + 1e-6).all())
    assert bool((memory.energy(after) <= surrogate(after) + 1e-6).all())


@few
@given(matrices(N, D, 2.0), vectors(D, 2.0), matrices(4, D, 2.0))
def test_each_step_lowers_the_energy_by_at_least_its_squared_length(patterns: Tensor, b: Tensor, x: Tensor) -> None:
    memory = unified(patterns, b)
    after = DebiasedReadout.of(memory).step(memory, x)
    fallen = memory.energy(x) - memory.energy(after)
    assert bool((fallen >= (x - after).square().sum(-1) - 1e-5).all())


def test_the_step_printed_in_one_proof_raises_the_energy() -> None:
    """With T(x) - b/2 in place of T(x) + b/2 the energy rises, and not for odd inputs only."""
    rises = 0
    for seed in range(100):
        patterns, b, x = gaussian(N, D, seed=seed), gaussian(D, seed=1000 + seed), gaussian(1, D, seed=2000 + seed)
        memory = unified(patterns, b)
        printed = memory.weights(x) @ patterns - b / 2
        proven = memory.weights(x) @ patterns + b / 2
        rises += bool(memory.energy(printed) > memory.energy(x) + 0.1)
        assert bool(memory.energy(proven) <= memory.energy(x) + SLACK)
    assert rises > 10


def test_the_printed_step_raises_the_energy_in_the_smallest_example() -> None:
    """One pattern at 0, b = 2, state at the minimum x = 1: the right step stays, the printed one goes to -1."""
    memory = unified(torch.zeros(1, 1), torch.tensor([2.0]))
    minimum = torch.tensor([[1.0]])
    assert DebiasedReadout.of(memory).step(memory, minimum).tolist() == [[1.0]]
    printed = memory.weights(minimum) @ memory.patterns - 1
    assert memory.energy(minimum).tolist() == [-1.0]
    assert memory.energy(printed).tolist() == [3.0]


def test_states_rest_at_the_pattern_plus_the_bias_and_answers_at_the_pattern() -> None:
    patterns = 10 * torch.eye(4, dtype=torch.float64)
    bias = torch.tensor([1.0, -2.0, 0.5, 0.0], dtype=torch.float64)
    memory = unified(patterns, 2 * bias)
    trajectory = iterate(memory, patterns + bias + 0.3 * gaussian(4, 4), DebiasedReadout.of(memory))
    assert bool(trajectory.converged.all())
    torch.testing.assert_close(trajectory.states[-1], patterns + bias)
    torch.testing.assert_close(trajectory.answers, patterns)


def test_the_energy_converges_and_so_do_the_states() -> None:
    memory = unified(gaussian(20, 6), torch.full((6,), 0.4))
    trajectory = iterate(memory, 3 * gaussian(50, 6, seed=1), DebiasedReadout.of(memory), max_steps=500)
    assert bool(trajectory.converged.all())
    rest = trajectory.states[-1].requires_grad_()
    (slope,) = torch.autograd.grad(memory.energy(rest).sum(), rest)
    assert slope.abs().max() < 1e-4, "a resting state is a critical point of the energy"


def test_the_path_is_no_longer_than_the_energy_it_loses() -> None:
    memory = unified(gaussian(20, 6), torch.full((6,), 0.4))
    trajectory = iterate(memory, 3 * gaussian(50, 6, seed=1), DebiasedReadout.of(memory))
    assert trajectory.energies is not None
    lengths = trajectory.states.diff(dim=0).square().sum(-1).sum(0)
    lost = trajectory.energies[0] - trajectory.energies[-1]
    assert bool((lost >= lengths - SLACK).all())


# --- thm:energy


@few
@given(matrices(N, D, 1e6), vectors(D, 10.0), matrices(4, D, 1e6))
def test_the_energy_is_bounded_from_below_whatever_the_patterns(patterns: Tensor, b: Tensor, x: Tensor) -> None:
    bound = -log(N) - float(b.square().sum()) / 4
    # The states where a bound could break: anywhere, and at the bottom of a well.
    for states in (x, patterns + b / 2):
        energies = unified(patterns, b).energy(states)
        # float64 has sixteen digits, and the squares here are as large as 1e13.
        assert bool((energies >= bound - 1e-2 - 1e-6 * abs(bound)).all())


def test_the_bound_is_reached_where_all_patterns_are_one() -> None:
    b = torch.tensor([1.0, -2.0, 0.5], dtype=torch.float64)
    patterns = torch.full((N, D), 1e3, dtype=torch.float64)
    energy = unified(patterns, b).energy(patterns[:1] + b / 2).detach()
    assert float(energy) == pytest.approx(-log(N) - float(b.square().sum()) / 4)


def test_the_other_energies_have_no_bound_as_patterns_grow() -> None:
    for network in (zoo.m_hop, zoo.s_hop, zoo.hop, zoo.e_hop):
        energies = []
        for length in (1.0, 4.0, 16.0):
            pattern = torch.full((1, 4), length / 2, dtype=torch.float64)
            energies.append(float(network(pattern).energy(pattern)))
        assert energies[2] < 10 * energies[1] < 0
        assert energies[1] < energies[0]


def test_the_energy_rises_without_bound_as_the_state_leaves_the_patterns() -> None:
    memory = unified(gaussian(N, D), torch.tensor([1.0, 0.0, -1.0]))
    direction = gaussian(1, D, seed=1)
    energies = memory.energy(torch.cat([scale * direction for scale in (10.0, 100.0, 1000.0)])).detach()
    assert bool((energies.diff() > 0).all())
    assert float(energies[-1]) > 1e5


# --- what is not proven is not claimed


def test_descent_is_claimed_for_the_similarity_of_the_theorem_alone() -> None:
    patterns, bias = uniform_patterns(N, D), torch.tensor([0.5, -1.0, 0.25])
    proven = optimal_for_biased(bias)
    claimed = DebiasedReadout.of(AssociativeMemory(patterns, proven))
    assert claimed.descends(AssociativeMemory(patterns, proven))
    for unproven in (
        AssociativeMemory(patterns, proven, Softmax(2.0)),
        AssociativeMemory(patterns, proven, Sparsemax()),
        AssociativeMemory(patterns, proven, energy=QuadraticEnergy()),
        AssociativeMemory(patterns, optimal_for_biased(2 * bias)),
        AssociativeMemory(patterns, optimal_for_noisy(torch.tensor([0.1, 1.0, 2.0]))),
        AssociativeMemory(patterns, AdaptiveSimilarity(D)),
    ):
        assert not claimed.descends(unproven)


@pytest.mark.parametrize(
    "similarity",
    [AdaptiveSimilarity(D), FootprintSimilarity(EuclideanSimilarity(), D), EuclideanSimilarity()],
    ids=repr,
)
def test_readout_claims_no_descent_for_adaptive_similarities(
    similarity: AdaptiveSimilarity | FootprintSimilarity | EuclideanSimilarity,
) -> None:
    memory = AssociativeMemory(uniform_patterns(N, D), similarity)
    assert not Readout().descends(memory)
    assert not GradientDescent().descends(memory)


def test_readout_can_raise_the_energy_of_a_sorted_footprint() -> None:
    """The theorem does not cover the model that is trained, and cannot: here its energy rises."""
    rises = 0
    for seed in range(50):
        patterns, x = gaussian(N, D, seed=seed), gaussian(1, D, seed=1000 + seed)
        similarity = FootprintSimilarity(EuclideanSimilarity(), D)
        with torch.no_grad():
            similarity.weights.copy_(gaussian(D, seed=2000 + seed))
        memory = AssociativeMemory(patterns, similarity)
        rises += bool(memory.energy(Readout().step(memory, x)) > memory.energy(x) + 0.1)
    assert rises > 5


def test_readout_claims_descent_for_the_networks_of_the_table_that_have_a_square_in_their_energy() -> None:
    patterns = uniform_patterns(N, D)
    for network in (zoo.m_hop, zoo.s_hop, zoo.k_hop, zoo.k2_hop):
        memory = network(patterns)
        assert Readout().descends(memory)
        energies = iterate(memory, 3 * gaussian(20, D), max_steps=20).energies
        assert energies is not None
        assert bool((energies.diff(dim=0) <= 1e-6 * (1 + energies[:-1].abs())).all())


def test_the_unified_similarity_is_the_printed_one() -> None:
    similarity, patterns, queries = UnifiedSimilarity(D), uniform_patterns(N, D), gaussian(4, D)
    with torch.no_grad():
        similarity.precision.copy_(torch.tensor([0.5, 1.0, 2.0]))
        similarity.slope.copy_(torch.tensor([1.0, -1.0, 0.25]))
    a, b = similarity.precision.detach().double(), similarity.slope.detach().double()
    expected = [[float(-(x - xi) @ torch.diag(a) @ (x - xi) + b @ (x - xi)) for xi in patterns] for x in queries]
    torch.testing.assert_close(similarity(patterns, queries), torch.tensor(expected, dtype=torch.float64))
