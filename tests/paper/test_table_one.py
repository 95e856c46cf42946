"""Table 1 [tab:summary], row by row, against loops that read like the table.

Energies are those of the table where it is right: for D-Hop and E-Hop it prints the power and the exponential of a
sum, where the sum of powers and of exponentials is meant.
"""

from collections.abc import Callable
from functools import partial
from math import exp, log
from typing import Literal

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from ahop import AdaptiveSimilarity, AssociativeMemory, Softmax, iterate, zoo
from ahop.errors import UnsupportedError
from ahop.modulations import KernelModulation
from ahop.paper.dynamics import Readout, SignDynamics
from ahop.separations import Argmax, Entmax, Sparsemax
from ahop.separations.base import Separation
from ahop.similarities import FootprintSimilarity
from tests.paper.worlds import few, gaussian, uniform_patterns

Vector = list[float]
N, D = 6, 4
PATTERNS, QUERIES = uniform_patterns(N, D), gaussian(5, D)
DTYPE = torch.float64
ORDERS: list[Literal["together", "one_by_one"]] = ["together", "one_by_one"]


# --- the table's columns, slowly


def dot(xi: Vector, x: Vector) -> float:
    return sum(a * b for a, b in zip(xi, x, strict=True))


def minus_manhattan(xi: Vector, x: Vector) -> float:
    return -sum(abs(a - b) for a, b in zip(xi, x, strict=True))


def weighted_footprint(xi: Vector, x: Vector, weights: Vector, per_dimension: Callable[[float, float], float]) -> float:
    """w^T ftpt: the k best dimensions summed, for every k."""
    descending = sorted((per_dimension(a, b) for a, b in zip(xi, x, strict=True)), reverse=True)
    return sum(w * sum(descending[: k + 1]) for k, w in enumerate(weights))


def softmax(s: Vector, beta: float = 1.0) -> Vector:
    top = max(s)
    powers = [exp(beta * (value - top)) for value in s]
    return [power / sum(powers) for power in powers]


def argmax(s: Vector) -> Vector:
    best = [value == max(s) for value in s]
    return [float(hit) / sum(best) for hit in best]


def entmax(s: Vector, alpha: float, beta: float = 1.0) -> Vector:
    """[(alpha - 1) beta s - tau]_+^(1 / (alpha - 1)), tau found by halving; alpha = 2 is sparsemax."""
    scaled = [(alpha - 1) * beta * value for value in s]
    low, high = max(scaled) - 1, max(scaled)
    for _ in range(100):
        tau = (low + high) / 2
        total = sum(max(value - tau, 0) ** (1 / (alpha - 1)) for value in scaled)
        low, high = (tau, high) if total > 1 else (low, tau)
    return [max(value - low, 0) ** (1 / (alpha - 1)) for value in scaled]


def lse(s: Vector) -> float:
    return max(s) + log(sum(exp(value - max(s)) for value in s))


def entmax_conjugate(s: Vector, alpha: float, beta: float) -> float:
    """Psi*_alpha(beta s): the largest value of beta p^T s minus the entropy of p, which entmax attains."""
    p = entmax(s, alpha, beta)
    total: float = sum(value**alpha for value in p)
    return beta * dot(p, s) - (total - 1) / (alpha * (alpha - 1))


def times(matrix: list[Vector], x: Vector) -> Vector:
    return [dot(row, x) for row in matrix]


def slow_retrieval(
    sim: Callable[[Vector, Vector], float],
    sep: Callable[[Vector], Vector],
    mod: Callable[[Vector], Vector] = lambda xi: xi,
) -> Tensor:
    """One query, one pattern, one dimension after another: y = Xi sep(sim(mod(Xi), x))."""
    answers = []
    for x in QUERIES.tolist():
        p = sep([sim(mod(xi), x) for xi in PATTERNS.tolist()])
        answers.append([sum(p[n] * xi[i] for n, xi in enumerate(PATTERNS.tolist())) for i in range(D)])
    return torch.tensor(answers, dtype=DTYPE)


def slow_energies(energy: Callable[[Vector], float]) -> Tensor:
    return torch.tensor([energy(x) for x in QUERIES.tolist()], dtype=DTYPE)


def dots(x: Vector) -> Vector:
    return [dot(xi, x) for xi in PATTERNS.tolist()]


def assert_same(actual: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(actual.detach(), expected, rtol=1e-5, atol=1e-6)


# --- Hop, D-Hop, E-Hop


def test_hop_is_a_linear_separation_of_dot_products() -> None:
    assert_same(zoo.hop(PATTERNS).retrieve(QUERIES), slow_retrieval(dot, lambda s: s))


def test_hop_has_the_energy_of_its_row() -> None:
    def energy(x: Vector) -> float:
        outer = [[sum(xi[i] * xi[j] for xi in PATTERNS.tolist()) for j in range(D)] for i in range(D)]
        return -0.5 * dot(x, times(outer, x))

    assert_same(zoo.hop(PATTERNS).energy(QUERIES), slow_energies(energy))


@pytest.mark.parametrize("exponent", [1, 2, 3, 5])
def test_d_hop_raises_dot_products_to_a_power(exponent: int) -> None:
    expected = slow_retrieval(dot, lambda s: [value**exponent for value in s])
    assert_same(zoo.d_hop(PATTERNS, exponent).retrieve(QUERIES), expected)


@pytest.mark.parametrize("exponent", [1, 2, 3, 5])
def test_d_hop_has_the_energy_of_its_row_with_the_power_inside_the_sum(exponent: int) -> None:
    energy = (exponent + 1) * zoo.d_hop(PATTERNS, exponent).energy(QUERIES)
    assert_same(energy, slow_energies(lambda x: -sum(value ** (exponent + 1) for value in dots(x))))
    as_printed = slow_energies(lambda x: -(sum(dots(x)) ** (exponent + 1)))
    assert not torch.allclose(energy, as_printed)


def test_e_hop_takes_the_exponential_of_dot_products() -> None:
    assert_same(zoo.e_hop(PATTERNS).retrieve(QUERIES), slow_retrieval(dot, lambda s: [exp(value) for value in s]))


def test_e_hop_has_the_energy_of_its_row_with_the_exponential_inside_the_sum() -> None:
    energy = zoo.e_hop(PATTERNS).energy(QUERIES)
    assert_same(energy, slow_energies(lambda x: -sum(exp(value) for value in dots(x))))
    assert not torch.allclose(energy, slow_energies(lambda x: -exp(sum(dots(x)))), rtol=0.01)


@pytest.mark.parametrize(
    ("network", "separated"),
    [
        (zoo.hop, lambda s: s),
        (partial(zoo.d_hop, exponent=3), lambda s: s**3),
        (zoo.e_hop, torch.exp),
    ],
    ids=["hop", "d_hop", "e_hop"],
)
def test_the_readout_of_the_sign_networks_is_minus_the_gradient_of_their_energy(
    network: Callable[[Tensor], AssociativeMemory], separated: Callable[[Tensor], Tensor]
) -> None:
    memory, x = network(PATTERNS), QUERIES.clone().requires_grad_()
    (slope,) = torch.autograd.grad(memory.energy(x).sum(), x)
    torch.testing.assert_close(-slope, memory.retrieve(QUERIES))
    torch.testing.assert_close(-slope, separated(QUERIES @ PATTERNS.mT) @ PATTERNS)


def test_the_energy_printed_for_d_hop_does_not_belong_to_its_readout() -> None:
    x = QUERIES.clone().requires_grad_()
    printed = -((x @ PATTERNS.mT).sum(-1) ** 4)
    (slope,) = torch.autograd.grad(printed.sum(), x)
    readout = zoo.d_hop(PATTERNS, 3).retrieve(QUERIES)
    cosines = torch.cosine_similarity(-slope, readout)
    assert float(cosines.min()) < 0.9, "not even its direction"


@few
@given(st.integers(0, 10_000))
def test_the_original_update_by_synapses_is_the_sign_dynamics(seed: int) -> None:
    """sigma_i <- sgn(sum_j T_ij sigma_j), T_ij = sum_k xi_ki xi_kj, all neurons at once."""
    # An odd number of patterns and of neurons, so that no field is zero.
    patterns, states = gaussian(3, 7, seed=seed).sign(), gaussian(1, 7, seed=seed + 1).sign()
    T = [[sum(xi[i] * xi[j] for xi in patterns.tolist()) for j in range(7)] for i in range(7)]
    expected = [1.0 if field > 0 else -1.0 for field in times(T, states[0].tolist())]
    assert SignDynamics().step(zoo.hop(patterns), states)[0].tolist() == expected


def test_the_original_update_of_one_neuron_after_another_is_the_sign_dynamics_in_that_order() -> None:
    patterns, state = gaussian(3, 7, seed=5).sign(), gaussian(1, 7, seed=6).sign()
    order = torch.randperm(7, generator=torch.Generator().manual_seed(0)).tolist()
    T = [[sum(xi[i] * xi[j] for xi in patterns.tolist()) for j in range(7)] for i in range(7)]
    expected = state[0].tolist()
    for neuron in order:
        expected[neuron] = 1.0 if dot(T[neuron], expected) > 0 else -1.0
    stepped = SignDynamics("one_by_one", seed=0).step(zoo.hop(patterns), state)
    assert stepped[0].tolist() == expected


@pytest.mark.parametrize("exponent", [3, None], ids=["power", "exponential"])
def test_the_dense_networks_update_signs_as_printed(exponent: int | None) -> None:
    """sgn(Xi (Xi^T sigma)^k) and sgn(Xi exp(Xi^T sigma))."""
    patterns, states = gaussian(5, 9, seed=1).sign(), gaussian(8, 9, seed=2).sign()
    memory = zoo.e_hop(patterns) if exponent is None else zoo.d_hop(patterns, exponent)
    overlaps = states @ patterns.mT
    separated = overlaps.exp() if exponent is None else overlaps**exponent
    torch.testing.assert_close(SignDynamics().step(memory, states), (separated @ patterns).sign())


@pytest.mark.parametrize("network", [zoo.hop, zoo.d_hop, zoo.e_hop])
def test_stored_signs_rest_and_damaged_ones_come_back(network: Callable[[Tensor], AssociativeMemory]) -> None:
    patterns = torch.tensor([[1, 1, 1, 1, 1, 1, 1, 1], [1, -1, 1, -1, 1, -1, 1, -1]], dtype=DTYPE)
    damaged = patterns.clone()
    damaged[:, 2] *= -1
    trajectory = iterate(network(patterns), torch.cat([patterns, damaged]), SignDynamics())
    torch.testing.assert_close(trajectory.answers, torch.cat([patterns, patterns]))
    assert trajectory.energies is not None
    assert bool((trajectory.energies.diff(dim=0) <= 0).all())


def test_sign_dynamics_claims_descent_where_the_potential_is_convex() -> None:
    patterns = gaussian(5, 9, seed=1).sign()
    claimed = [zoo.hop(patterns), zoo.d_hop(patterns, 3), zoo.e_hop(patterns)]
    assert all(SignDynamics(order).descends(memory) for memory in claimed for order in ORDERS)
    assert not SignDynamics().descends(zoo.d_hop(patterns, 2)), "an even exponent has a potential that is not convex"
    for memory in claimed:
        for order in ORDERS:
            energies = iterate(memory, gaussian(30, 9, seed=3).sign(), SignDynamics(order)).energies
            assert energies is not None
            assert bool((energies.diff(dim=0) <= 1e-9 * energies[:-1].abs()).all())


# --- M-Hop, S-Hop


@pytest.mark.parametrize("beta", [1.0, 4.0])
def test_m_hop_is_a_softmax_of_dot_products_and_one_step_of_attention(beta: float) -> None:
    answer = zoo.m_hop(PATTERNS, beta).retrieve(QUERIES)
    assert_same(answer, slow_retrieval(dot, partial(softmax, beta=beta)))
    attention = scaled_dot_product_attention(QUERIES[None], PATTERNS[None], PATTERNS[None], scale=beta)[0]
    assert_same(answer, attention)
    assert_same(answer, torch.softmax(beta * QUERIES @ PATTERNS.mT, dim=-1) @ PATTERNS)


@pytest.mark.parametrize("beta", [1.0, 4.0])
def test_m_hop_has_the_energy_of_its_row_with_beta_put_back(beta: float) -> None:
    expected = slow_energies(lambda x: 0.5 * dot(x, x) - lse([beta * s for s in dots(x)]) / beta)
    assert_same(zoo.m_hop(PATTERNS, beta).energy(QUERIES), expected)


@pytest.mark.parametrize("beta", [1.0, 4.0])
def test_s_hop_is_a_sparsemax_of_dot_products(beta: float) -> None:
    assert_same(zoo.s_hop(PATTERNS, beta).retrieve(QUERIES), slow_retrieval(dot, partial(entmax, alpha=2, beta=beta)))


@pytest.mark.parametrize("beta", [1.0, 4.0])
def test_s_hop_has_the_energy_of_its_row_divided_by_beta(beta: float) -> None:
    expected = slow_energies(lambda x: 0.5 * dot(x, x) - entmax_conjugate(dots(x), 2, beta) / beta)
    assert_same(zoo.s_hop(PATTERNS, beta).energy(QUERIES), expected)


# --- U-Hop


def test_u_hop_gives_all_weight_to_the_nearest_in_manhattan_distance() -> None:
    assert_same(zoo.u_hop(PATTERNS).retrieve(QUERIES), slow_retrieval(minus_manhattan, argmax))


def test_u_hop_has_no_energy() -> None:
    with pytest.raises(UnsupportedError, match="no energy"):
        zoo.u_hop(PATTERNS).energy(QUERIES)


# --- K-Hop


def kernelized(alpha: float, beta: float, kernel_dimensions: int = 3) -> tuple[AssociativeMemory, list[Vector]]:
    memory = zoo.k2_hop(PATTERNS, Entmax(alpha, beta), kernel_dimensions)
    assert isinstance(memory.modulation, KernelModulation)
    with torch.no_grad():
        memory.modulation.kernel.copy_(gaussian(kernel_dimensions, D, seed=9))
    return memory, memory.modulation.kernel.double().tolist()


@pytest.mark.parametrize(("alpha", "beta"), [(1.5, 1.0), (1.3, 4.0), (2.0, 2.0)])
def test_k_hop_compares_in_kernel_space_and_reads_the_patterns_themselves(alpha: float, beta: float) -> None:
    memory, kernel = kernelized(alpha, beta)

    def mod(xi: Vector) -> Vector:
        return times([list(column) for column in zip(*kernel, strict=True)], times(kernel, xi))

    sep = partial(entmax, alpha=alpha, beta=beta)
    assert_same(memory.retrieve(QUERIES), slow_retrieval(dot, sep, mod))
    in_kernel_space = slow_retrieval(lambda xi, x: dot(times(kernel, xi), times(kernel, x)), sep)
    assert_same(memory.retrieve(QUERIES), in_kernel_space)


@pytest.mark.parametrize(("alpha", "beta"), [(1.5, 1.0), (1.3, 4.0), (2.0, 2.0)])
def test_k_hop_has_the_energy_of_its_row_divided_by_beta(alpha: float, beta: float) -> None:
    memory, kernel = kernelized(alpha, beta)

    def energy(x: Vector) -> float:
        projected = times(kernel, x)
        scores = [dot(times(kernel, xi), projected) for xi in PATTERNS.tolist()]
        return 0.5 * dot(projected, projected) - entmax_conjugate(scores, alpha, beta) / beta

    assert_same(memory.energy(QUERIES), slow_energies(energy))


def test_k2_hop_starts_as_the_network_without_a_kernel_and_k_hop_as_a_rotation_of_it() -> None:
    plain = AssociativeMemory(PATTERNS, zoo.m_hop(PATTERNS).similarity, Entmax())
    assert_same(zoo.k2_hop(PATTERNS).retrieve(QUERIES), plain.retrieve(QUERIES))
    assert_same(zoo.k_hop(PATTERNS).retrieve(QUERIES), plain.retrieve(QUERIES))


@pytest.mark.parametrize("beta", [1.0, 4.0])
def test_the_readout_of_the_continuous_networks_is_where_their_energys_gradient_points(beta: float) -> None:
    """E' = x - T(x), in the kernel's metric for K-Hop: true for every beta once the potential is divided by it."""
    kernel_memory, kernel = kernelized(1.5, beta, kernel_dimensions=D)
    phi = torch.tensor(kernel, dtype=DTYPE)
    identity = torch.eye(D, dtype=DTYPE)
    for memory, metric in (
        (zoo.m_hop(PATTERNS, beta), identity),
        (zoo.s_hop(PATTERNS, beta), identity),
        (kernel_memory, phi.mT @ phi),
    ):
        x = QUERIES.clone().requires_grad_()
        (slope,) = torch.autograd.grad(memory.energy(x).sum(), x)
        assert_same(slope, (QUERIES - memory.retrieve(QUERIES)) @ metric)
        assert_same(Readout().step(memory, QUERIES), memory.retrieve(QUERIES))


# --- A-Hop


def adaptive(separation: Separation) -> tuple[AssociativeMemory, Callable[[Vector, Vector], float]]:
    memory = zoo.a_hop(PATTERNS, separation=separation)
    similarity = memory.similarity
    assert isinstance(similarity, AdaptiveSimilarity)
    distance, product = similarity.footprints
    assert isinstance(distance, FootprintSimilarity)
    assert isinstance(product, FootprintSimilarity)
    with torch.no_grad():
        distance.weights.copy_(gaussian(D, seed=11))
        product.weights.copy_(gaussian(D, seed=12))
        similarity.betas.copy_(torch.tensor([0.5, 1.5]))
    w_distance, w_product = distance.weights.double().tolist(), product.weights.double().tolist()

    def sim(xi: Vector, x: Vector) -> float:
        by_distance = weighted_footprint(xi, x, w_distance, lambda a, b: -((a - b) ** 2))
        by_product = weighted_footprint(xi, x, w_product, lambda a, b: a * b)
        return 0.5 * by_distance + 1.5 * by_product

    return memory, sim


@pytest.mark.parametrize(
    ("separation", "slow"),
    [(Softmax(), softmax), (Argmax(), argmax), (Sparsemax(), partial(entmax, alpha=2))],
    ids=["softmax", "argmax", "sparsemax"],
)
def test_a_hop_is_a_weighted_footprint_under_several_separations(
    separation: Separation, slow: Callable[[Vector], Vector]
) -> None:
    memory, sim = adaptive(separation)
    assert_same(memory.retrieve(QUERIES), slow_retrieval(sim, slow))


def test_a_hop_has_the_energy_of_its_row() -> None:
    memory, sim = adaptive(Softmax())
    expected = slow_energies(lambda x: -lse([sim(xi, x) for xi in PATTERNS.tolist()]))
    assert_same(memory.energy(QUERIES), expected)


def test_a_fresh_memory_is_a_hop() -> None:
    assert_same(AssociativeMemory(PATTERNS).retrieve(QUERIES), zoo.a_hop(PATTERNS).retrieve(QUERIES).detach())
