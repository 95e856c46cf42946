"""How states move, rest, and fall."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.testing import assert_close

import ahop
from ahop import zoo
from ahop._core.missing import filled
from ahop.errors import InvalidTypeError, InvalidValueError, ShapeError, UnsupportedError
from ahop.paper.dynamics.base import Dynamics
from tests.catalogue import DYNAMICS, ZOO, shaken
from tests.strategies import FEW, Problem, gapped_problems, problem, problems, seeds, with_gaps

every_dynamics = pytest.mark.parametrize("name", DYNAMICS)
both_orders = pytest.mark.parametrize(
    "dynamics", [ahop.dynamics.SignDynamics(), ahop.dynamics.SignDynamics("one_by_one", 5)], ids=repr
)
binary = pytest.mark.parametrize(
    "dynamics",
    [ahop.dynamics.SignDynamics(), ahop.dynamics.SignDynamics("one_by_one", 5), ahop.dynamics.FlipDynamics(5)],
    ids=repr,
)


def memory_for(name: str, patterns: Tensor) -> ahop.AssociativeMemory:
    if name.startswith("signs"):
        return zoo.d_hop(patterns.sign())
    if name == "ranked readout":
        return zoo.a_hop(patterns)
    if name == "de-biased readout":
        similarity = ahop.similarities.UnifiedSimilarity(patterns.shape[1])
        with torch.no_grad():
            similarity.slope.fill_(0.2)
        return ahop.AssociativeMemory(patterns, similarity)
    return zoo.m_hop(patterns, beta=2.0)


def falls(trajectory: ahop.dynamics.Trajectory) -> bool:
    assert trajectory.energies is not None
    before, after = trajectory.energies[:-1], trajectory.energies[1:]
    return bool((after <= before + 1e-9 * (1 + before.abs())).all())


@every_dynamics
@settings(max_examples=FEW)
@given(case=problems)
def test_no_state_depends_on_the_rest_of_the_batch(name: str, case: Problem) -> None:
    memory, dynamics = memory_for(name, case.patterns), DYNAMICS[name](case.sizes[0])
    together = ahop.iterate(memory, case.queries, dynamics, max_steps=8)
    for row in range(len(case.queries)):
        alone = ahop.iterate(memory, case.queries[row : row + 1], dynamics, max_steps=8)
        assert_close(together.answers[row], alone.answers[0])
        assert together.steps[row] == alone.steps[0]
        assert together.converged[row] == alone.converged[0]
        assert_close(together.states[: len(alone.states), row], alone.states[:, 0])
        at_rest = together.states[len(alone.states) :, row]
        assert_close(at_rest, alone.states[-1].expand_as(at_rest))


@every_dynamics
@pytest.mark.parametrize(("count", "dimensions", "batch"), [(5, 4, 3), (1, 1, 1), (5, 4, 0)])
def test_a_trajectory_holds_every_state_from_the_query_on(name: str, count: int, dimensions: int, batch: int) -> None:
    case = problem(count, dimensions, batch)
    trajectory = ahop.iterate(memory_for(name, case.patterns), case.queries, DYNAMICS[name](dimensions), max_steps=5)
    length = len(trajectory.states)
    assert 1 <= length <= 6
    assert trajectory.states.shape == (length, batch, dimensions)
    assert torch.equal(trajectory.states[0], case.queries)
    assert trajectory.energies is not None
    assert trajectory.energies.shape == (length, batch)
    assert trajectory.answers.shape == (batch, dimensions)
    assert trajectory.steps.shape == trajectory.converged.shape == (batch,)
    assert not trajectory.states.requires_grad


@every_dynamics
def test_a_step_is_what_a_trajectory_takes(name: str) -> None:
    case = problem()
    memory, dynamics = memory_for(name, case.patterns), DYNAMICS[name](4)
    trajectory = ahop.iterate(memory, case.queries, dynamics, max_steps=1)
    assert_close(trajectory.states[1], dynamics.step(memory, case.queries).detach())
    assert_close(trajectory.answers, dynamics.answer(memory, trajectory.states[1]))


def test_without_a_dynamics_it_is_the_readout() -> None:
    case = problem()
    memory = zoo.m_hop(case.patterns)
    by_default = ahop.iterate(memory, case.queries.numpy(), max_steps=3)
    assert torch.equal(
        by_default.answers, ahop.iterate(memory, case.queries, ahop.dynamics.Readout(), max_steps=3).answers
    )
    assert_close(by_default.states[1], memory.retrieve(case.queries))


def test_a_state_that_rests_is_counted_and_left_alone() -> None:
    patterns = torch.eye(3, dtype=torch.float64)
    memory = ahop.AssociativeMemory(patterns, ahop.EuclideanSimilarity(), ahop.separations.Argmax())
    queries = torch.stack([patterns[0], 0.6 * patterns[1]])
    trajectory = ahop.iterate(memory, queries)
    assert trajectory.steps.tolist() == [0, 1]
    assert trajectory.converged.tolist() == [True, True]
    assert torch.equal(trajectory.answers, patterns[:2])


def test_a_state_that_does_not_come_to_rest_says_so() -> None:
    case = problem(batch=4)
    trajectory = ahop.iterate(zoo.m_hop(case.patterns), case.queries, max_steps=2, tolerance=0.0)
    assert trajectory.steps.tolist() == [2, 2, 2, 2]
    assert not bool(trajectory.converged.any())


def test_a_network_without_energy_has_a_trajectory_without_energies() -> None:
    case = problem()
    assert ahop.iterate(zoo.u_hop(case.patterns), case.queries).energies is None


@every_dynamics
@settings(max_examples=FEW)
@given(case=problems, per_query=st.booleans())
def test_what_is_known_stays_as_it_is(name: str, case: Problem, per_query: bool) -> None:
    memory, dynamics = memory_for(name, case.patterns), DYNAMICS[name](case.sizes[0])
    known = torch.rand(case.queries.shape if per_query else case.queries.shape[1:]) < 0.5
    trajectory = ahop.iterate(memory, case.queries, dynamics, max_steps=4, known=known)
    where = known.expand(trajectory.states.shape)
    assert torch.equal(trajectory.states[where], case.queries.expand_as(trajectory.states)[where])


def test_a_query_that_is_known_throughout_rests_at_once() -> None:
    case = problem()
    trajectory = ahop.iterate(zoo.m_hop(case.patterns), case.queries, known=np.ones(4, dtype=bool))
    assert trajectory.steps.tolist() == [0, 0, 0]
    assert bool(trajectory.converged.all())
    assert torch.equal(trajectory.answers, case.queries)


@pytest.mark.parametrize(
    ("known", "error", "message"),
    [
        (torch.ones(4), InvalidTypeError, r"`known` must be boolean, True where.*got dtype torch\.float32"),
        (torch.ones(5).bool(), ShapeError, r"`known` must have shape \(4,\) or \(3, 4\); got \(5,\)"),
        (torch.ones(2, 4).bool(), ShapeError, r"got \(2, 4\)"),
    ],
)
def test_a_mask_without_meaning_is_refused(known: Tensor, error: type[Exception], message: str) -> None:
    case = problem()
    with pytest.raises(error, match=message):
        ahop.iterate(zoo.m_hop(case.patterns), case.queries, known=known)


def test_limits_without_meaning_are_refused() -> None:
    case = problem()
    memory = zoo.m_hop(case.patterns)
    with pytest.raises(InvalidValueError, match="`max_steps` must be a whole number of at least 1"):
        ahop.iterate(memory, case.queries, max_steps=0)
    with pytest.raises(InvalidValueError, match="`tolerance` must be zero or larger"):
        ahop.iterate(memory, case.queries, tolerance=-1.0)
    with pytest.raises(ShapeError, match=r"`queries` must have two axes"):
        ahop.iterate(memory, case.queries[0])
    with pytest.raises(InvalidValueError, match="`step_size` must be positive"):
        ahop.dynamics.GradientDescent(0.0)
    with pytest.raises(UnsupportedError, match="no energy"):
        ahop.iterate(zoo.u_hop(case.patterns), case.queries, ahop.dynamics.GradientDescent())


# What was not observed.


@every_dynamics
@settings(max_examples=FEW)
@given(case=gapped_problems)
def test_gaps_are_filled_by_the_first_step(name: str, case: Problem) -> None:
    patterns = torch.where(case.patterns.isnan(), 0.5, case.patterns)
    memory, dynamics = memory_for(name, patterns), DYNAMICS[name](case.sizes[0])
    if name == "descent":
        if bool(case.queries.isnan().any()):
            with pytest.raises(
                UnsupportedError, match=r"no place to descend from\. Start from `memory\.retrieve\(queries"
            ):
                ahop.iterate(memory, case.queries, dynamics)
        return
    trajectory = ahop.iterate(memory, case.queries, dynamics, max_steps=5)
    assert_close(trajectory.states[0], case.queries, rtol=0, atol=0, equal_nan=True)
    assert bool(torch.isfinite(trajectory.states[1:]).all())
    assert bool(torch.isfinite(trajectory.answers).all())
    assert trajectory.energies is not None
    assert bool(torch.isfinite(trajectory.energies).all())
    assert bool((trajectory.steps[case.queries.isnan().any(-1)] >= 1).all())


def test_what_is_known_stays_and_gaps_are_filled() -> None:
    case = with_gaps(problem(batch=6))
    seen = ~case.queries.isnan()
    trajectory = ahop.iterate(zoo.m_hop(problem().patterns), case.queries, known=np.ones(4, dtype=bool))
    assert torch.equal(trajectory.answers[seen], case.queries[seen])
    assert bool(torch.isfinite(trajectory.answers).all())
    assert bool(trajectory.converged.all())


def test_a_coordinate_that_no_pattern_has_is_never_filled_and_holds_no_state_up() -> None:
    patterns = problem().patterns
    patterns[:, 1] = torch.nan
    queries = problem().queries
    trajectory = ahop.iterate(zoo.m_hop(patterns, beta=5.0), queries)
    assert torch.equal(trajectory.answers.isnan(), patterns[:3].isnan())
    assert bool(trajectory.converged.all())


@both_orders
def test_a_neuron_that_was_not_observed_has_no_say(dynamics: Dynamics) -> None:
    patterns = torch.tensor([[1.0, 1.0, -1.0, -1.0], [-1.0, torch.nan, -1.0, 1.0]])
    states = torch.tensor([[1.0, torch.nan, torch.nan, -1.0], [-1.0, torch.nan, torch.nan, torch.nan]])
    expected = torch.tensor([[1.0, 1.0, -1.0, -1.0], [-1.0, 1.0, -1.0, 1.0]])
    assert torch.equal(dynamics.step(zoo.e_hop(patterns), states), expected)


# Signs.


def signs(count: int, dimensions: int, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return 2.0 * torch.randint(0, 2, (count, dimensions), generator=generator).double() - 1


def gapped_signs(count: int, dimensions: int, seed: int) -> Tensor:
    gaps = torch.rand(count, dimensions, generator=torch.Generator().manual_seed(seed)) < 0.4
    return signs(count, dimensions, seed).masked_fill(gaps, torch.nan)


@binary
@given(case=problems)
def test_states_of_binary_neurons_are_signs(dynamics: Dynamics, case: Problem) -> None:
    states = dynamics.step(zoo.d_hop(case.patterns.sign()), case.queries)
    assert bool((states.abs() == 1).all())


@given(seed=seeds)
def test_neurons_together_take_the_sign_of_their_input(seed: int) -> None:
    patterns, states = signs(3, 7, seed), signs(4, 7, seed + 1)
    field = (states @ patterns.mT) @ patterns
    expected = torch.where(field == 0, states, field.sign())
    assert torch.equal(ahop.dynamics.SignDynamics().step(zoo.hop(patterns), states), expected)


@given(seed=seeds)
def test_neurons_one_by_one_see_the_neurons_before_them(seed: int) -> None:
    patterns, states = signs(3, 7, seed), signs(4, 7, seed + 1)
    found = ahop.dynamics.SignDynamics("one_by_one", seed=2).step(zoo.hop(patterns), states)
    expected = states.clone()
    for neuron in torch.randperm(7, generator=torch.Generator().manual_seed(2)).tolist():
        field = (expected @ patterns.mT) @ patterns[:, neuron]
        expected[:, neuron] = torch.where(field == 0, expected[:, neuron], field.sign())
    assert torch.equal(found, expected)


@given(seed=seeds)
def test_no_neuron_that_flips_acts_on_itself(seed: int) -> None:
    """Hopfield's rule: a matrix of couplings with a zero diagonal."""
    patterns, states = signs(3, 7, seed), signs(4, 7, seed + 1)
    found = ahop.dynamics.FlipDynamics(seed=2).step(zoo.hop(patterns), states)
    couplings, expected = (patterns.mT @ patterns).fill_diagonal_(0), states.clone()
    for neuron in torch.randperm(7, generator=torch.Generator().manual_seed(2)).tolist():
        field = expected @ couplings[neuron]
        expected[:, neuron] = torch.where(field == 0, expected[:, neuron], field.sign())
    assert torch.equal(found, expected)


def test_flips_want_dot_products() -> None:
    with pytest.raises(
        InvalidTypeError, match="Flips need a `DotSimilarity` and patterns as they are; this memory has"
    ):
        ahop.dynamics.FlipDynamics().step(zoo.u_hop(torch.eye(3)), torch.eye(3))


@binary
def test_a_neuron_without_input_keeps_its_sign(dynamics: Dynamics) -> None:
    patterns = torch.tensor([[1.0, 1.0], [1.0, -1.0]])
    memory = ahop.AssociativeMemory(torch.cat([patterns, -patterns]), ahop.DotSimilarity(), ahop.separations.Power(2))
    states = torch.tensor([[1.0, -1.0], [-1.0, -1.0], [0.0, -0.5]])
    assert torch.equal(dynamics.step(memory, states), torch.tensor([[1.0, -1.0], [-1.0, -1.0], [1.0, -1.0]]))


def test_an_order_must_be_one_of_two(unchecked: None) -> None:
    with pytest.raises(InvalidValueError, match="`order` must be one of 'together', 'one_by_one'; got 'at random'"):
        ahop.dynamics.SignDynamics("at random")  # type: ignore[arg-type]


def test_a_step_leaves_the_states_it_was_given(unchecked: None) -> None:
    for name, make in DYNAMICS.items():
        case = problem()
        before = case.queries.clone()
        make(4).step(memory_for(name, case.patterns), case.queries)
        assert torch.equal(case.queries, before)


# Falling energies.


@pytest.mark.parametrize("name", ["m_hop", "s_hop", "k_hop", "k2_hop"])
@pytest.mark.parametrize("with_prior", [False, True])
@settings(max_examples=FEW)
@given(case=problems)
def test_the_readout_lowers_the_energy(name: str, with_prior: bool, case: Problem) -> None:
    memory = ZOO[name](case.patterns)
    if with_prior:
        log_prior = torch.linspace(-1, 0, len(memory))
        memory = ahop.AssociativeMemory(
            case.patterns, memory.similarity, memory.separation, memory.modulation, memory.energy_function, log_prior
        )
    assert ahop.dynamics.Readout().descends(memory)
    assert falls(ahop.iterate(memory, case.queries, max_steps=6))


@binary
@pytest.mark.parametrize("network", [zoo.hop, zoo.d_hop, zoo.e_hop, lambda p: zoo.d_hop(p, 5)])
@settings(max_examples=FEW)
@given(seed=seeds, count=st.integers(1, 8), dimensions=st.integers(1, 10))
def test_signs_lower_the_energy(
    dynamics: Dynamics, network: type[ahop.AssociativeMemory], seed: int, count: int, dimensions: int
) -> None:
    memory, states = network(signs(count, dimensions, seed)), signs(4, dimensions, seed + 1)
    assert dynamics.descends(memory)
    assert falls(ahop.iterate(memory, states, dynamics, max_steps=6))


def biased(patterns: Tensor, bias: Tensor, beta: float = 1.0) -> ahop.AssociativeMemory:
    return ahop.AssociativeMemory(patterns, ahop.similarities.optimal_for_biased(bias), ahop.Softmax(beta))


@given(case=problems)
def test_the_debiased_readout_lowers_the_energy(case: Problem) -> None:
    memory = biased(case.patterns, torch.randn(case.sizes[0]))
    dynamics = ahop.dynamics.DebiasedReadout.of(memory)
    assert dynamics.descends(memory)
    assert falls(ahop.iterate(memory, case.queries, dynamics, max_steps=6))


@given(case=problems)
def test_half_a_gradient_step_is_the_debiased_readout(case: Problem) -> None:
    memory = biased(case.patterns, torch.randn(case.sizes[0]))
    descent = ahop.dynamics.GradientDescent(0.5).step(memory, case.queries)
    assert_close(descent, ahop.dynamics.DebiasedReadout.of(memory).step(memory, case.queries))


def test_the_debiased_answer_takes_the_bias_off() -> None:
    patterns, bias = 5 * torch.eye(3), torch.tensor([1.0, -1.0, 0.5])
    memory = biased(patterns, bias)
    trajectory = ahop.iterate(memory, patterns + bias + 0.3, ahop.dynamics.DebiasedReadout.of(memory))
    assert_close(trajectory.answers, patterns, rtol=0, atol=1e-3)
    assert_close(trajectory.states[-1], patterns + bias, rtol=0, atol=1e-3)


def test_a_debiased_readout_wants_a_unified_similarity() -> None:
    with pytest.raises(InvalidTypeError, match="needs a `UnifiedSimilarity`; this memory has DotSimilarity"):
        ahop.dynamics.DebiasedReadout.of(zoo.m_hop(torch.eye(3)))


@pytest.mark.parametrize(
    ("dynamics", "memory"),
    [
        (ahop.dynamics.Readout(), zoo.a_hop(torch.eye(3))),
        (ahop.dynamics.Readout(), zoo.u_hop(torch.eye(3))),
        (ahop.dynamics.Readout(), zoo.hop(torch.eye(3))),
        (ahop.dynamics.FlipDynamics(), zoo.u_hop(torch.eye(3))),
        (ahop.dynamics.SignDynamics(), zoo.m_hop(torch.eye(3))),
        (ahop.dynamics.SignDynamics(), zoo.d_hop(torch.eye(3), 2)),
        (ahop.dynamics.SignDynamics(), zoo.k_hop(torch.eye(3))),
        (ahop.dynamics.SignDynamics(), zoo.a_hop(torch.eye(3))),
        (ahop.dynamics.GradientDescent(), zoo.m_hop(torch.eye(3))),
        (ahop.dynamics.DebiasedReadout(torch.ones(3)), zoo.m_hop(torch.eye(3))),
        (ahop.dynamics.DebiasedReadout(torch.ones(3)), biased(torch.eye(3), torch.zeros(3))),
        (ahop.dynamics.DebiasedReadout(torch.ones(3)), biased(torch.eye(3), torch.ones(3), beta=2.0)),
        (
            ahop.dynamics.DebiasedReadout(torch.ones(3)),
            ahop.AssociativeMemory(torch.eye(3), shaken(ahop.similarities.UnifiedSimilarity(3))),
        ),
    ],
)
def test_no_fall_is_promised_that_is_not_proven(dynamics: Dynamics, memory: ahop.AssociativeMemory) -> None:
    assert not dynamics.descends(memory)


@every_dynamics
@settings(max_examples=FEW)
@given(case=st.one_of(problems, gapped_problems), network=st.sampled_from(["hop", "d_hop", "e_hop", "m_hop", "s_hop"]))
def test_no_step_raises_an_energy_that_is_said_to_fall(name: str, network: str, case: Problem) -> None:
    dynamics = DYNAMICS[name](case.sizes[0])
    states = torch.where(case.queries < 0, -1.0, 1.0).to(case.queries) if name.startswith("signs") else case.queries
    for memory in (memory_for(name, case.patterns), ZOO[network](case.patterns), ZOO[network](case.patterns.sign())):
        if dynamics.descends(memory):
            assert falls(ahop.iterate(memory, filled(states), dynamics, max_steps=6))


def test_nothing_falls_for_sure_where_stored_patterns_have_gaps() -> None:
    """Scores are made up for what is missing, and the readout is not their gradient any more."""
    nan, every = torch.nan, torch.cartesian_prod(*[torch.tensor([-1.0, 1.0]).double()] * 8)
    patterns = torch.tensor([[2.0, nan, 1.0], [-1.0, 2.0, nan], [0.0, 1.0, -2.0]]).double()
    rising = [
        (ahop.dynamics.Readout(), zoo.m_hop(patterns, beta=2.0), patterns),
        (ahop.dynamics.SignDynamics(), zoo.hop(gapped_signs(5, 8, seed=55)), every),
        (ahop.dynamics.SignDynamics("one_by_one"), zoo.hop(gapped_signs(5, 8, seed=55)), every),
    ]
    shifted = biased(patterns, torch.tensor([1.0, -1.0, 0.5]).double())
    rising.append((ahop.dynamics.DebiasedReadout.of(shifted), shifted, 3 * every[:, :3]))
    for dynamics, memory, states in rising:
        assert not dynamics.descends(memory)
        assert not falls(ahop.iterate(memory, filled(states), dynamics, max_steps=6)), f"an example of {dynamics!r}"


def test_a_small_gradient_step_lowers_any_smooth_energy() -> None:
    case = problem()
    for name in ("m_hop", "s_hop", "k2_hop", "a_hop"):
        assert falls(
            ahop.iterate(ZOO[name](case.patterns), case.queries, ahop.dynamics.GradientDescent(1e-3), max_steps=5)
        )
