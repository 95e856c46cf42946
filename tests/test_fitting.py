"""Learning from pairs."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

import ahop
from ahop import zoo
from ahop.errors import AhopError, InvalidTypeError, InvalidValueError, ShapeError, UnsupportedError
from ahop.fitting.solvers.losses import fenchel_young_loss, separation_loss
from ahop.modulations import KernelModulation
from ahop.separations.base import Separation
from ahop.similarities.base import LinearSimilarity, Similarity
from tests.catalogue import SEPARATIONS, SOLVERS, shaken, three_bases

DIMENSIONS = 6
VARIANT = ahop.MixedVariant(0.2, 0.3, 0.3)

LINEAR: dict[str, Callable[[], LinearSimilarity]] = {
    "unified": lambda: ahop.similarities.UnifiedSimilarity(DIMENSIONS),
    "footprint": lambda: ahop.similarities.FootprintSimilarity(ahop.EuclideanSimilarity(), DIMENSIONS),
    "adaptive": lambda: ahop.AdaptiveSimilarity(DIMENSIONS),
    "adaptive, one base": lambda: ahop.AdaptiveSimilarity(DIMENSIONS, [ahop.DotSimilarity()]),
    "adaptive, three bases": lambda: ahop.AdaptiveSimilarity(DIMENSIONS, three_bases()),
}
every_linear_similarity = pytest.mark.parametrize("name", LINEAR)


def patterns(count: int = 40, dtype: torch.dtype = torch.float32) -> Tensor:
    generator = torch.Generator().manual_seed(1)
    return 2 * torch.rand(count, DIMENSIONS, generator=generator, dtype=torch.float64).to(dtype) - 1


def mean_loss(memory: ahop.AssociativeMemory, pairs: ahop.Pairs) -> Tensor:
    return fenchel_young_loss(memory.separation, memory.scores(pairs.queries), pairs.origins).mean()


def share_found(memory: ahop.AssociativeMemory, pairs: ahop.Pairs) -> float:
    found = memory.recall(pairs.queries).indices.squeeze(-1) == pairs.origins
    return float(found.double().mean())


def report_of(memory: ahop.AssociativeMemory) -> ahop.report.SolverReport:
    assert isinstance(memory.report, ahop.report.SolverReport)
    return memory.report


# The loss.


@pytest.mark.parametrize("separation", [s for s in SEPARATIONS if s.is_distribution], ids=repr)
def test_the_loss_is_not_negative_and_its_slope_is_the_weights_less_the_truth(separation: Separation) -> None:
    scores = torch.randn(20, 5, dtype=torch.float64, requires_grad=True)
    origins = torch.randint(5, (20,))
    losses = fenchel_young_loss(separation, scores, origins)
    if not getattr(separation, "floor", 0):  # with a floor no weights are the truth itself
        assert bool((losses >= -1e-12).all())
    (slope,) = torch.autograd.grad(losses.sum(), scores)
    assert_close(slope, separation(scores) - torch.nn.functional.one_hot(origins, 5))


def test_for_softmax_the_loss_is_cross_entropy() -> None:
    scores, origins = torch.randn(20, 5), torch.randint(5, (20,))
    expected = torch.nn.functional.cross_entropy(scores, origins, reduction="none")
    assert_close(fenchel_young_loss(ahop.Softmax(), scores, origins), expected)


def test_patterns_further_apart_have_a_lower_separation_loss() -> None:
    angles = torch.tensor([0.0, 2.0, 4.0])
    circle = torch.stack([angles.cos(), angles.sin()], dim=1)
    crowded = torch.stack([(angles / 9).cos(), (angles / 9).sin()], dim=1)
    assert float(separation_loss(circle)) < float(separation_loss(crowded))
    assert_close(separation_loss(7 * circle), separation_loss(circle))


@pytest.mark.parametrize("count", [0, 1])
def test_the_separation_loss_of_fewer_than_two_patterns_is_refused(count: int) -> None:
    with pytest.raises(InvalidValueError, match="at least two"):
        separation_loss(torch.ones(count, 3))


def test_the_separation_loss_is_that_of_all_pairs() -> None:
    rows = torch.cat([torch.randn(30, 5, dtype=torch.float64)] * 2).requires_grad_()  # each of them twice
    places = torch.nn.functional.normalize(rows.detach(), dim=-1)
    apart = torch.stack([(places[i] - places[j]).square().sum() for i in range(60) for j in range(i)])
    loss = separation_loss(rows, temperature=1.5)
    assert_close(loss.detach(), (-1.5 * apart).exp().mean().log())
    (slope,) = torch.autograd.grad(loss, rows)
    assert bool(slope.isfinite().all())


# The convex solver.


@every_linear_similarity
def test_every_start_ends_in_the_same_place(name: str) -> None:
    pairs = VARIANT.sample(patterns(), 200)
    losses = []
    for seed, scale in ((0, 1.0), (1, 1e-3), (2, 30.0)):
        similarity = LINEAR[name]()
        generator = torch.Generator().manual_seed(seed)
        similarity.set_coefficients(scale * torch.randn(len(similarity.coefficients), generator=generator))
        fitted = ahop.fit(ahop.AssociativeMemory(patterns(), similarity), pairs=pairs, progress=False)
        assert report_of(fitted).converged
        losses.append(report_of(fitted).loss)
    assert max(losses) - min(losses) < 1e-4


@every_linear_similarity
def test_the_optimum_is_flat(name: str) -> None:
    memory = ahop.AssociativeMemory(patterns(dtype=torch.float64), LINEAR[name]()).double()
    pairs = VARIANT.sample(memory.patterns, 400)
    fitted = ahop.fit(
        memory, pairs=pairs, solver=ahop.fitting.ConvexSolver(smoothness=0.0, tolerance=1e-12), progress=False
    )
    gradients = torch.autograd.grad(mean_loss(fitted, pairs), list(fitted.parameters()))
    assert max(float(gradient.abs().max()) for gradient in gradients) < 1e-5


@every_linear_similarity
def test_no_neighbor_of_the_optimum_is_lower(name: str) -> None:
    pairs = VARIANT.sample(patterns(dtype=torch.float64), 400)
    memory = ahop.AssociativeMemory(patterns(dtype=torch.float64), LINEAR[name]())
    fitted = ahop.fit(memory, pairs=pairs, solver=ahop.fitting.ConvexSolver(smoothness=0.0), progress=False)
    lowest = float(mean_loss(fitted, pairs).detach())
    assert report_of(fitted).loss == pytest.approx(lowest, abs=1e-5)
    for seed in range(5):
        other = shaken(fitted.copy(), seed)
        assert float(mean_loss(other, pairs).detach()) > lowest - 1e-6


@every_linear_similarity
@pytest.mark.parametrize(
    "separation", [ahop.Softmax(2.0), ahop.separations.Sparsemax(), ahop.separations.Entmax(1.3, beta=2.0)], ids=repr
)
def test_every_linear_similarity_is_fitted_under_every_curved_separation(name: str, separation: Separation) -> None:
    pairs = VARIANT.sample(patterns(), 200)
    memory = ahop.AssociativeMemory(patterns(), LINEAR[name](), separation)
    fitted = ahop.fit(memory, pairs=pairs, solver=ahop.fitting.ConvexSolver(smoothness=0.0), progress=False)
    assert report_of(fitted).converged
    assert report_of(fitted).loss < report_of(fitted).loss_before
    assert report_of(fitted).loss == pytest.approx(float(mean_loss(fitted, pairs).detach()), abs=1e-4)
    assert report_of(fitted).loss_before == pytest.approx(float(mean_loss(memory, pairs).detach()), rel=1e-4)


def test_a_fit_reaches_what_a_long_descent_reaches_and_more_quickly() -> None:
    pairs = VARIANT.sample(patterns(), 200)
    newton = ahop.fit(patterns(), pairs=pairs, solver=ahop.fitting.ConvexSolver(smoothness=0.0), progress=False)
    descent = ahop.fit(patterns(), pairs=pairs, solver=ahop.fitting.AdamSolver(200, 0.1), progress=False)
    assert report_of(newton).loss <= report_of(descent).loss + 1e-4
    assert report_of(newton).steps < 30


def test_a_fit_learns_the_precision_of_each_dimension() -> None:
    variance = torch.tensor([0.01, 0.01, 0.01, 1.0, 1.0, 1.0])
    memory = ahop.AssociativeMemory(patterns(200), ahop.similarities.UnifiedSimilarity(DIMENSIONS))
    variant = ahop.NoisyVariant(variance)
    fitted = ahop.fit(
        memory, variant=variant, samples=1000, solver=ahop.fitting.ConvexSolver(smoothness=0.0), progress=False
    )
    assert isinstance(fitted.similarity, ahop.similarities.UnifiedSimilarity)
    assert_close(fitted.similarity.precision.detach(), 0.5 / variance, rtol=0.3, atol=0.3)
    pairs = variant.sample(patterns(200), 1000, seed=1)
    assert share_found(fitted, pairs) > share_found(memory, pairs)
    assert share_found(fitted, pairs) > ahop.criteria.bayes_accuracy(patterns(200), variant) - 0.02


def test_a_prior_is_taken_into_account() -> None:
    log_prior = torch.linspace(-3, 0, 40)
    memory = ahop.AssociativeMemory(patterns(), log_prior=log_prior)
    fitted = ahop.fit(memory, variant=VARIANT, samples=300, progress=False)
    pairs = VARIANT.sample(patterns(), 300, torch.Generator().manual_seed(0), log_prior)
    assert report_of(fitted).loss == pytest.approx(float(mean_loss(fitted, pairs).detach()), abs=1e-4)
    without = ahop.fit(zoo.a_hop(patterns()), pairs=pairs, progress=False)
    assert report_of(fitted).loss < report_of(without).loss


@pytest.mark.parametrize("scale", [1e-3, 1e2, 1e3, 1e4])
@pytest.mark.parametrize("name", ["adaptive", "unified"])
@pytest.mark.parametrize("seed", [0, 2])
def test_the_unit_of_the_patterns_does_not_matter(name: str, scale: float, seed: int) -> None:
    train, test = VARIANT.sample(patterns(), 300, seed), VARIANT.sample(patterns(), 500, seed=1)
    plain = ahop.fit(ahop.AssociativeMemory(patterns(), LINEAR[name]()), pairs=train, progress=False)
    scaled = ahop.fit(
        ahop.AssociativeMemory(scale * patterns(), LINEAR[name]()),
        pairs=(train.origins, scale * train.queries),
        progress=False,
    )
    assert report_of(scaled).loss == pytest.approx(report_of(plain).loss, abs=2e-3)
    accuracy = ahop.evaluate(scaled, ahop.Pairs(test.origins, scale * test.queries)).accuracy
    assert accuracy == pytest.approx(ahop.evaluate(plain, test).accuracy, abs=0.01)


@pytest.mark.parametrize("name", LINEAR)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_one_pair_is_enough_to_say_something(name: str, dtype: torch.dtype) -> None:
    pairs = VARIANT.sample(patterns(dtype=dtype), 1)
    fitted = ahop.fit(ahop.AssociativeMemory(patterns(dtype=dtype), LINEAR[name]()), pairs=pairs, progress=False)
    assert all(bool(torch.isfinite(parameter).all()) for parameter in fitted.parameters())
    assert report_of(fitted).loss <= report_of(fitted).loss_before
    assert report_of(fitted).pairs == 1


@pytest.mark.parametrize("name", LINEAR)
@pytest.mark.parametrize("solver", ["convex", "adam"])
def test_one_pattern_leaves_nothing_to_learn(name: str, solver: str) -> None:
    memory = ahop.AssociativeMemory(patterns(1), LINEAR[name]())
    fitted = ahop.fit(memory, variant=VARIANT, solver=SOLVERS[solver], samples=20, progress=False)
    assert report_of(fitted).loss == pytest.approx(0.0, abs=1e-5)
    assert torch.equal(fitted.recall(patterns(1)).indices, torch.zeros(1, 1).long())


def test_patterns_that_are_all_alike_do_not_break_a_fit() -> None:
    same = torch.ones(4, DIMENSIONS)
    fitted = ahop.fit(same, variant=ahop.NoisyVariant(0.1), samples=20, progress=False)
    assert_close(fitted.recall(same, k=4).posterior, torch.full((4, 4), 0.25))


def test_pairs_without_any_corruption_do_not_break_a_fit() -> None:
    pairs = (torch.arange(40), patterns())
    fitted = ahop.fit(patterns(), pairs=pairs, progress=False)
    assert torch.equal(fitted.recall(patterns()).indices.squeeze(-1), torch.arange(40))


def test_smoothness_keeps_few_pairs_from_saying_too_much() -> None:
    test = VARIANT.sample(patterns(), 500, seed=99)

    def accuracy(smoothness: float) -> float:
        solver = ahop.fitting.ConvexSolver(smoothness=smoothness)
        fits = [
            ahop.fit(patterns(), variant=VARIANT, samples=8, seed=seed, solver=solver, progress=False)
            for seed in range(6)
        ]
        return sum(share_found(fitted, test) for fitted in fits) / len(fits)

    assert accuracy(ahop.fitting.ConvexSolver().smoothness) > accuracy(0.0) + 0.02


def test_a_convex_solver_wants_a_linear_similarity() -> None:
    with pytest.raises(
        InvalidTypeError, match=r"linear in its coefficients; DotSimilarity\(\) is not\. Use `solver='adam'`"
    ):
        ahop.fit(zoo.m_hop(patterns()), variant=VARIANT, solver="convex", progress=False)


def test_a_convex_solver_wants_a_curved_separation() -> None:
    memory = ahop.AssociativeMemory(patterns(), separation=ahop.separations.Argmax())
    with pytest.raises(UnsupportedError, match="fit with `Softmax`, then swap the separation"):
        ahop.fit(memory, variant=VARIANT, samples=50, progress=False)


# Adam, and K-Hop's own.


@pytest.mark.parametrize(
    "similarity",
    [*(make() for make in LINEAR.values()), ahop.similarities.IsolatedSimilarity(40, DIMENSIONS)],
    ids=repr,
)
def test_adam_lowers_the_loss_of_any_similarity(similarity: Similarity) -> None:
    memory = ahop.AssociativeMemory(patterns(), similarity)
    pairs = VARIANT.sample(patterns(), 200)
    fitted = ahop.fit(memory, pairs=pairs, solver=ahop.fitting.AdamSolver(30, 0.05), progress=False)
    assert report_of(fitted).loss < report_of(fitted).loss_before
    assert float(mean_loss(fitted, pairs).detach()) < float(mean_loss(memory, pairs).detach())
    assert report_of(fitted).converged is None
    assert report_of(fitted).pairs == 200


def own_corruptions(count: int, seed: int) -> ahop.Pairs:
    """Copies of some patterns are noisy everywhere, those of others exact in half of their dimensions."""
    generator, stored = torch.Generator().manual_seed(seed), patterns()
    origins = torch.randint(40, (count,), generator=generator)
    kept = stored[origins]
    noisy = kept + 0.5 * torch.randn(kept.shape, generator=generator)
    redrawn = 2 * torch.rand(kept.shape, generator=generator) - 1
    masked = torch.where(torch.rand(kept.shape, generator=generator) < 0.5, redrawn, kept)
    return ahop.Pairs(origins, torch.where((origins < 20).unsqueeze(-1), noisy, masked))


def test_weights_of_each_pattern_gain_where_patterns_differ_and_lose_nothing_where_pairs_are_few() -> None:
    isolated = ahop.AssociativeMemory(patterns(), ahop.similarities.IsolatedSimilarity(40, DIMENSIONS))
    test, gains = own_corruptions(1500, 9), []
    for count in (40, 2000):
        pairs = own_corruptions(count, 1)
        shared = ahop.fit(zoo.a_hop(patterns()), pairs=pairs, progress=False)
        own = ahop.fit(isolated, pairs=pairs, progress=False)
        gains.append(float(mean_loss(shared, test).detach()) - float(mean_loss(own, test).detach()))
    assert gains[0] > -0.05
    assert gains[1] > 0.02


def test_weights_of_each_pattern_know_the_prior() -> None:
    """Where one origin is drawn ninety times as often, a fit that is told so leaves it out of the weights."""
    often = torch.zeros(40).index_fill(0, torch.tensor([3]), 4.5).log_softmax(0)
    memory = ahop.AssociativeMemory(patterns(), ahop.similarities.IsolatedSimilarity(40, DIMENSIONS), log_prior=often)
    pairs, test = (VARIANT.sample(patterns(), 400, seed, often) for seed in (1, 2))
    told = ahop.fit(memory, pairs=pairs, progress=False)
    assert float(mean_loss(told, test).detach()) < float(mean_loss(memory, test).detach())


def test_a_pattern_without_pairs_has_the_weights_of_all() -> None:
    pairs = own_corruptions(300, 1)
    known = pairs.origins != 7
    pairs = ahop.Pairs(pairs.origins[known], pairs.queries[known])
    isolated = ahop.AssociativeMemory(patterns(), ahop.similarities.IsolatedSimilarity(40, DIMENSIONS))
    never = ahop.fit(isolated, pairs=pairs, solver=ahop.fitting.ShrinkageSolver((float("inf"),)), progress=False)
    shared = ahop.fit(zoo.a_hop(patterns()), pairs=pairs, progress=False)
    torch.testing.assert_close(never.scores(pairs.queries), shared.scores(pairs.queries), rtol=1e-4, atol=1e-4)
    assert report_of(never).steps == 0
    with pytest.raises(InvalidTypeError, match="Shrinkage is for an `IsolatedSimilarity`"):
        ahop.fit(zoo.a_hop(patterns()), pairs=pairs, solver="shrinkage", progress=False)


def test_the_strength_of_shrinkage_is_chosen_on_pairs_that_taught_nothing() -> None:
    strengths, last = (0.1, 1.0, 10.0, 100.0, float("inf")), ahop.AssociativeMemory(patterns())
    for seed in range(4):
        pairs = VARIANT.sample(patterns(), 48, seed=seed)
        held_out = torch.arange(48) % 4 == 0
        taught = ahop.Pairs(pairs.origins[~held_out], pairs.queries[~held_out])
        losses = {}
        for strength in strengths:
            last = ahop.AssociativeMemory(patterns(), ahop.similarities.IsolatedSimilarity(40, DIMENSIONS))
            solver = ahop.fitting.ShrinkageSolver((strength,))
            scores = (
                ahop.fit(last, pairs=taught, solver=solver, progress=False).scores(pairs.queries[held_out]).detach()
            )
            losses[strength] = float(torch.nn.functional.cross_entropy(scores, pairs.origins[held_out]))
        best = min(losses, key=lambda each: losses[each])
        chosen = ahop.fit(last, pairs=pairs, solver=ahop.fitting.ShrinkageSolver(strengths), progress=False)
        assert report_of(chosen).solver.endswith(f", strength {best:g}"), losses


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_adam_fits_the_kernel_of_k2_hop(dtype: torch.dtype) -> None:
    memory = zoo.k2_hop(patterns(dtype=dtype))
    pairs = VARIANT.sample(memory.patterns, 200)
    fitted = ahop.fit(memory, pairs=pairs, solver=ahop.fitting.AdamSolver(40, 0.05), progress=False)
    assert report_of(fitted).loss < report_of(fitted).loss_before


def test_adam_fits_alpha_too() -> None:
    memory = ahop.AssociativeMemory(patterns(), separation=ahop.separations.Entmax(1.5, learnable=True))
    fitted = ahop.fit(memory, variant=VARIANT, samples=100, solver=ahop.fitting.AdamSolver(20, 0.1), progress=False)
    assert isinstance(fitted.separation, ahop.separations.Entmax)
    assert 1 < float(fitted.separation.alpha.detach()) < 2
    assert float(fitted.separation.alpha.detach()) != 1.5


def test_adam_fits_a_base_that_has_parameters_of_its_own() -> None:
    similarity = ahop.similarities.FootprintSimilarity(ahop.similarities.UnifiedSimilarity(DIMENSIONS), DIMENSIONS)
    memory = ahop.AssociativeMemory(patterns(), similarity)
    fitted = ahop.fit(memory, variant=VARIANT, samples=100, solver=ahop.fitting.AdamSolver(10, 0.1), progress=False)
    before, after = dict(memory.named_parameters()), dict(fitted.named_parameters())
    assert all(not torch.equal(before[name], after[name]) for name in before)


def test_adam_draws_fresh_pairs_each_epoch() -> None:
    fitted = ahop.fit(patterns(), variant=VARIANT, samples=50, solver=ahop.fitting.AdamSolver(4), progress=False)
    assert report_of(fitted).pairs == 200


def test_adam_needs_something_to_fit() -> None:
    with pytest.raises(InvalidTypeError, match="There is nothing to fit: DotSimilarity"):
        ahop.fit(zoo.m_hop(patterns()), variant=VARIANT, progress=False)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_separation_solver_spreads_the_patterns(dtype: torch.dtype) -> None:
    memory = zoo.k_hop(patterns(dtype=dtype) + 1)
    fitted = ahop.fit(memory, solver=SOLVERS["separation"], progress=False)
    assert report_of(fitted).loss < report_of(fitted).loss_before
    assert report_of(fitted).pairs == 0
    assert "from the patterns alone" in str(fitted.report)


def test_of_many_patterns_the_separation_solver_sees_others_in_each_epoch() -> None:
    stored, solver = patterns(200), ahop.fitting.SeparationSolver(epochs=40, patterns=20)
    seen = ahop.fit(zoo.k_hop(stored), solver=solver, progress=False)
    same = ahop.fit(zoo.k_hop(stored[:20]), solver=solver, progress=False)

    def loss(memory: ahop.AssociativeMemory) -> float:
        assert isinstance(memory.modulation, KernelModulation)
        return float(separation_loss(stored @ memory.modulation.kernel.detach().mT))

    assert loss(seen) < loss(same)
    again = ahop.fit(zoo.k_hop(stored), solver=solver, seed=1, progress=False)
    assert loss(again) != loss(seen)


def test_the_separation_solver_says_what_it_wants() -> None:
    with pytest.raises(InvalidTypeError, match="trains a `KernelModulation`; this memory has Unmodulated"):
        ahop.fit(zoo.m_hop(patterns()), solver="separation", progress=False)
    with pytest.raises(InvalidTypeError, match="looks at the stored patterns alone; give it no pairs and no variant"):
        ahop.fit(zoo.k_hop(patterns()), variant=VARIANT, solver="separation", progress=False)
    with pytest.raises(InvalidTypeError, match="at least two patterns to spread apart; got one"):
        ahop.fit(zoo.k_hop(patterns(1)), solver="separation", progress=False)


# The verb.


def memory_for(solver: str) -> ahop.AssociativeMemory:
    if solver == "shrinkage":
        return ahop.AssociativeMemory(patterns(), ahop.similarities.IsolatedSimilarity(40, DIMENSIONS))
    return zoo.k_hop(patterns()) if solver == "separation" else zoo.a_hop(patterns())


@pytest.mark.parametrize("solver", SOLVERS)
def test_the_memory_given_is_left_as_it_was(solver: str) -> None:
    memory = memory_for(solver)
    before = {name: tensor.clone() for name, tensor in memory.state_dict().items()}
    source = {} if solver == "separation" else {"variant": VARIANT}
    fitted = ahop.fit(memory, solver=SOLVERS[solver], samples=50, progress=False, **source)  # type: ignore[arg-type]
    assert all(torch.equal(tensor, before[name]) for name, tensor in memory.state_dict().items())
    assert memory.report is None
    assert all(parameter.grad is None for parameter in memory.parameters())
    assert fitted.patterns.data_ptr() == memory.patterns.data_ptr()
    assert not all(torch.equal(tensor, before[name]) for name, tensor in fitted.state_dict().items())


@pytest.mark.parametrize("solver", SOLVERS)
def test_the_same_seed_gives_the_same_fit_to_the_last_bit(solver: str) -> None:
    memory = memory_for(solver)
    source = {} if solver == "separation" else {"variant": VARIANT}

    def fitted(seed: int) -> dict[str, Tensor]:
        torch.rand(3)  # the global generator has no say
        again = ahop.fit(memory, solver=SOLVERS[solver], samples=50, seed=seed, progress=False, **source)  # type: ignore[arg-type]
        return again.state_dict()

    first, second, other = fitted(3), fitted(3), fitted(4)
    assert all(torch.equal(first[name], second[name]) for name in first)
    if solver != "separation":
        assert not all(torch.equal(first[name], other[name]) for name in first)


def test_pairs_may_be_arrays() -> None:
    pairs = VARIANT.sample(patterns(), 100)
    from_arrays = ahop.fit(zoo.a_hop(patterns()), pairs=(pairs.origins.numpy(), pairs.queries.numpy()), progress=False)
    from_pairs = ahop.fit(zoo.a_hop(patterns()), pairs=pairs, progress=False)
    assert repr(from_arrays) == repr(from_pairs)
    assert all(torch.equal(value, from_pairs.state_dict()[name]) for name, value in from_arrays.state_dict().items())


def test_a_solver_may_be_named_or_given() -> None:
    pairs = VARIANT.sample(patterns(), 50)
    named = ahop.fit(patterns(), pairs=pairs, solver="convex", progress=False)
    given = ahop.fit(patterns(), pairs=pairs, solver=ahop.fitting.ConvexSolver(), progress=False)
    chosen = ahop.fit(zoo.a_hop(patterns()), pairs=pairs, progress=False)
    assert report_of(named).solver == report_of(given).solver == report_of(chosen).solver
    isolated = ahop.AssociativeMemory(patterns(), ahop.similarities.IsolatedSimilarity(40, DIMENSIONS))
    assert "ShrinkageSolver(" in report_of(ahop.fit(isolated, pairs=pairs, progress=False)).solver
    kernel = ahop.fit(zoo.k2_hop(patterns()), pairs=pairs, progress=False)
    assert "AdamSolver(epochs=200" in report_of(kernel).solver


def test_a_report_is_a_sentence() -> None:
    fitted = ahop.fit(zoo.a_hop(patterns()), variant=VARIANT, samples=50, progress=False)
    assert str(fitted.report).startswith("ConvexSolver(smoothness=")
    assert "from 50 pairs, converged after" in str(fitted.report)
    assert report_of(fitted).seconds > 0
    stopped = ahop.fit(
        patterns(), variant=VARIANT, samples=50, solver=ahop.fitting.ConvexSolver(max_steps=1), progress=False
    )
    assert "stopped before it converged after 1 steps" in str(stopped.report)


ORIGINS, COPIES = torch.arange(3), torch.zeros(3, DIMENSIONS)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({}, InvalidTypeError, "There is nothing to learn from.*queries"),
        ({"pairs": (ORIGINS, COPIES), "variant": VARIANT}, InvalidTypeError, "not both"),
        ({"pairs": 5}, InvalidTypeError, r"`pairs` must be two arrays, `\(origins, copies\)`; got int"),
        ({"pairs": (ORIGINS, COPIES, COPIES)}, InvalidTypeError, "`pairs` must be two arrays"),
        ({"pairs": (ORIGINS.float(), COPIES)}, InvalidTypeError, "`origins` must be whole numbers"),
        ({"pairs": (COPIES, ORIGINS)}, ShapeError, "`copies` must have two axes"),
        ({"pairs": (ORIGINS[:2], COPIES)}, ShapeError, r"`origins` must have shape \(3,\)"),
        ({"pairs": (ORIGINS + 38, COPIES)}, InvalidValueError, r"`origins` must lie in 0\.\.39"),
        ({"pairs": (ORIGINS - 1, COPIES)}, InvalidValueError, r"got -1\.\.1"),
        ({"pairs": (ORIGINS, COPIES[:, :2])}, InvalidValueError, "copies have other columns than the stored patterns"),
        ({"pairs": (ORIGINS, COPIES[0])}, ShapeError, r"For a single copy pass `copy\[None\]`"),
        ({"pairs": (ORIGINS, COPIES + torch.inf)}, InvalidValueError, "`copies` must be finite"),
        ({"pairs": (ORIGINS, {0.0})}, InvalidTypeError, "`copies` must be a numpy array, a torch tensor, a frame"),
        ({"pairs": (ORIGINS[:0], COPIES[:0]), "solver": "convex"}, InvalidValueError, "at least one pair; got none"),
        ({"variant": "noise"}, InvalidTypeError, "`variant` must be of the kind Variant; got str"),
        ({"variant": VARIANT, "samples": 0}, InvalidValueError, "`samples` must be a whole number"),
        ({"variant": VARIANT, "solver": "newton"}, InvalidValueError, "`solver` must be one of 'convex', 'adam', 'sep"),
        ({"variant": VARIANT, "solver": 3}, InvalidTypeError, "`solver` must be 'convex', 'adam', 'separation'"),
        ({"variant": VARIANT, "solver": ahop.fitting.AdamSolver}, InvalidTypeError, "`solver` must be"),
    ],
)  # fmt: skip
def test_arguments_without_meaning_are_refused(
    arguments: dict[str, object], error: type[AhopError], message: str, unchecked: None
) -> None:
    with pytest.raises(error, match=message):
        ahop.fit(patterns(), progress=False, **arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "make",
    [
        lambda: ahop.fitting.ConvexSolver(smoothness=-1.0),
        lambda: ahop.fitting.ConvexSolver(tolerance=0.0),
        lambda: ahop.fitting.ConvexSolver(max_steps=0),
        lambda: ahop.fitting.AdamSolver(epochs=0),
        lambda: ahop.fitting.AdamSolver(learning_rate=0.0),
        lambda: ahop.fitting.SeparationSolver(epochs=0),
        lambda: ahop.fitting.SeparationSolver(temperature=float("nan")),
        lambda: ahop.fitting.SeparationSolver(patterns=0),
        lambda: ahop.fitting.SeparationSolver(patterns=1),
    ],
)
def test_settings_without_meaning_are_refused(make: Callable[[], object]) -> None:
    with pytest.raises(InvalidValueError, match=r"`\w+` must be"):
        make()


def test_a_bar_can_be_shown(capsys: pytest.CaptureFixture[str]) -> None:
    ahop.fit(patterns(), variant=VARIANT, samples=20)
    assert "fit to all pairs" in capsys.readouterr().err
    ahop.fit(zoo.a_hop(patterns()), variant=VARIANT, samples=20)
    assert "fit" in capsys.readouterr().err
    ahop.fit(patterns(), variant=VARIANT, samples=20, progress=False)
    assert capsys.readouterr().err == ""


def test_numpy_origins_may_be_reversed() -> None:
    pairs = VARIANT.sample(patterns(), 20)
    origins, copies = pairs.origins.numpy()[::-1], pairs.queries.numpy()[::-1]
    fitted = ahop.fit(patterns(), pairs=(origins, copies), progress=False)
    assert isinstance(fitted.report, ahop.FitReport)
    assert np.isfinite(fitted.report.loss)
