"""What every separation keeps: its weights are the gradient of its potential, and order is order."""

import copy
from collections.abc import Callable

import entmax
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.autograd import gradcheck
from torch.func import functional_call, jacrev
from torch.testing import assert_close

import ahop
from ahop.separations.base import Separation
from tests.catalogue import CURVED, DISTRIBUTIONS, SEPARATIONS
from tests.strategies import FEW, huge_arrays, score_rows

every_separation = pytest.mark.parametrize("separation", SEPARATIONS, ids=repr)
every_distribution = pytest.mark.parametrize("separation", DISTRIBUTIONS, ids=repr)
every_curved_separation = pytest.mark.parametrize("separation", CURVED, ids=repr)
both_dtypes = pytest.mark.parametrize("dtype", [torch.float32, torch.float64])

# Spread out, so that no two are tied and none sits where a weight has just reached zero.
APART = torch.tensor([[0.31, -0.42, 0.94, 0.12], [-1.3, 1.71, 0.07, 1.13]], dtype=torch.float64)


class _Potential(nn.Module):
    def __init__(self, separation: Separation) -> None:
        super().__init__()
        self.separation = separation

    def forward(self, scores: Tensor) -> Tensor:
        return self.separation.potential(scores)


@every_separation
@given(scores=score_rows())
def test_weights_are_the_gradient_of_the_potential(separation: Separation, scores: Tensor) -> None:
    scores.requires_grad_()
    (gradient,) = torch.autograd.grad(separation.potential(scores).sum(), scores)
    assert_close(gradient, separation(scores))


@every_separation
def test_the_potential_has_the_slope_that_finite_differences_see(separation: Separation) -> None:
    separation = copy.deepcopy(separation).double()
    gradcheck(separation.potential, (APART.clone().requires_grad_(),))


@every_separation
def test_gradients_of_the_weights_are_right(separation: Separation) -> None:
    separation = copy.deepcopy(separation).double()
    gradcheck(separation, (APART.clone().requires_grad_(),))


@every_separation
@given(data=st.data())
def test_a_convex_potential_lies_above_its_tangents(separation: Separation, data: st.DataObject) -> None:
    if not separation.is_convex:
        return
    scores = data.draw(score_rows())
    other = scores + torch.randn(scores.shape, dtype=scores.dtype)
    tangent = separation.potential(scores) + (separation(scores) * (other - scores)).sum(-1)
    slack = 1e-9 * (1 + tangent.abs())
    assert bool((separation.potential(other) >= tangent - slack).all())


def test_an_even_power_does_not_call_itself_convex() -> None:
    assert [ahop.separations.Power(k).is_convex for k in (1, 2, 3, 4)] == [True, False, True, False]


@every_distribution
@given(scores=score_rows())
def test_a_distribution_is_not_negative_and_sums_to_one(separation: Separation, scores: Tensor) -> None:
    weights = separation(scores)
    assert bool((weights >= 0).all())
    assert_close(weights.sum(-1), torch.ones_like(weights[:, 0]))


@every_distribution
@pytest.mark.parametrize("count", [2, 1000])
def test_a_distribution_sums_to_one_in_float32_too(separation: Separation, count: int) -> None:
    weights = separation(torch.randn(20, count))
    assert_close(weights.sum(-1), torch.ones(20), rtol=0, atol=1e-5)


@pytest.mark.parametrize("alpha", [1.01, 1.001, 1.0001])
def test_entmax_close_to_softmax_is_still_a_distribution_close_to_softmax(alpha: float) -> None:
    scores = torch.randn(20, 1000)
    weights = ahop.separations.Entmax(alpha)(scores)
    assert_close(weights.sum(-1), torch.ones(20), rtol=0, atol=1e-5)
    assert_close(weights, torch.softmax(scores, -1), rtol=0.2, atol=1e-3)


@every_separation
@given(scores=score_rows())
def test_a_larger_score_never_weighs_less(separation: Separation, scores: Tensor) -> None:
    if isinstance(separation, ahop.separations.Power) and not separation.is_convex:
        scores = scores.abs()
    weights = separation(scores)
    larger = scores.unsqueeze(-1) >= scores.unsqueeze(-2)
    heavier = weights.unsqueeze(-1) >= weights.unsqueeze(-2)
    assert bool((heavier | ~larger).all())


@every_separation
@both_dtypes
def test_a_pair_that_nothing_is_known_about_has_no_weight_beside_others(
    separation: Separation, dtype: torch.dtype
) -> None:
    known = torch.tensor([[1.0, -2.0, 0.5], [3e4, 2.0, 1.0]], dtype=dtype)
    scores = torch.cat([known, torch.full((2, 1), torch.finfo(dtype).min, dtype=dtype)], dim=-1)
    weights = separation(scores)
    assert not bool(weights[:, 3].any())
    assert_close(weights[:, :3], separation(known))
    assert_close(separation.potential(scores), separation.potential(known))


@every_distribution
@given(scores=score_rows(), shift=st.floats(-100, 100))
def test_a_distribution_knows_differences_only(separation: Separation, scores: Tensor, shift: float) -> None:
    scores = scores.round(decimals=3)  # so that the shift cannot undo a tie
    shift = round(shift)
    assert_close(separation(scores + shift), separation(scores), rtol=0, atol=1e-9)
    assert_close(separation.potential(scores + shift), separation.potential(scores) + shift)


@every_separation
@settings(max_examples=FEW)
@given(scores=score_rows())
def test_weights_move_with_their_scores(separation: Separation, scores: Tensor) -> None:
    order = torch.randperm(scores.shape[-1])
    assert_close(separation(scores[:, order]), separation(scores)[:, order])
    assert_close(separation.potential(scores[:, order]), separation.potential(scores))


@every_separation
@settings(max_examples=FEW)
@given(scores=score_rows())
def test_each_query_is_separated_on_its_own(separation: Separation, scores: Tensor) -> None:
    assert_close(separation(scores), torch.cat([separation(row[None]) for row in scores]))
    batched = scores.expand(2, *scores.shape)
    assert_close(separation(batched)[1], separation(scores))
    assert_close(separation.potential(batched)[1], separation.potential(scores))


@every_distribution
@given(score=st.floats(-1e30, 1e30))
def test_a_single_pattern_has_all_the_weight(separation: Separation, score: float) -> None:
    scores = torch.tensor([[score]], dtype=torch.float64)
    assert_close(separation(scores), torch.ones(1, 1).double())
    assert_close(separation.potential(scores), scores[:, 0])


@every_separation
@both_dtypes
@given(scores=huge_arrays(2, 4))
def test_finite_in_finite_out(separation: Separation, dtype: torch.dtype, scores: Tensor) -> None:
    weights, potential = separation(scores.to(dtype)), separation.potential(scores.to(dtype))
    assert weights.dtype == potential.dtype == dtype
    assert bool(torch.isfinite(weights).all())
    assert bool(torch.isfinite(potential).all())
    if separation.is_distribution:
        assert_close(weights.sum(-1), torch.ones(2, dtype=dtype))


@every_separation
def test_the_ends_of_float32_are_finite_in_finite_out(separation: Separation) -> None:
    largest = torch.finfo(torch.float32).max
    scores = torch.tensor([[largest, -largest, 0.0], [largest, largest, largest], [-largest, -largest, -largest]])
    assert bool(torch.isfinite(separation(scores)).all())
    assert bool(torch.isfinite(separation.potential(scores)).all())


@every_separation
def test_no_queries_have_no_weights(separation: Separation) -> None:
    assert separation(torch.empty(0, 3)).shape == (0, 3)
    assert separation.potential(torch.empty(0, 3)).shape == (0,)


@every_curved_separation
def test_curvature_is_the_slope_of_the_weights(separation: Separation) -> None:
    separation = copy.deepcopy(separation).double()
    for scores in APART:
        slope: Tensor = jacrev(lambda row: separation(row[None])[0])(scores)
        bent = separation.curvature(separation(scores[None]))[0]
        assert_close(slope, torch.diag(bent) - torch.outer(bent, bent) / bent.sum(), rtol=1e-6, atol=1e-8)


@every_separation
def test_a_separation_without_curvature_says_so(separation: Separation) -> None:
    if separation not in CURVED:
        with pytest.raises(ahop.errors.UnsupportedError, match="no curvature of this form; fit with `Softmax`"):
            separation.curvature(torch.ones(1, 2))


@pytest.mark.parametrize(
    "make", [ahop.Softmax, ahop.separations.Sparsemax, lambda beta: ahop.separations.Entmax(1.5, beta)]
)
@pytest.mark.parametrize("beta", [1e4, 1e30])
def test_the_sharpest_separation_is_argmax(make: type[ahop.Softmax], beta: float) -> None:
    scores = torch.tensor([[0.3, 0.1, 0.2], [-5.0, 5.0, 4.9], [2.0, 2.0, -1e30]])
    assert_close(make(beta)(scores), ahop.separations.Argmax()(scores))
    assert_close(make(beta).potential(scores), scores.amax(-1), atol=1e-3, rtol=0)


@pytest.mark.parametrize(
    "make", [ahop.Softmax, ahop.separations.Sparsemax, lambda beta: ahop.separations.Entmax(1.5, beta)]
)
def test_beta_scales_the_scores(make: type[ahop.Softmax]) -> None:
    assert_close(make(3.0)(APART), make(1.0)(3 * APART))
    assert_close(make(3.0).potential(APART), make(1.0).potential(3 * APART) / 3)


@given(scores=score_rows())
def test_sparsemax_is_the_one_of_the_entmax_package(scores: Tensor) -> None:
    assert_close(ahop.separations.Sparsemax()(scores), entmax.sparsemax(scores, dim=-1))


@given(scores=score_rows())
def test_entmax_15_is_the_one_of_the_entmax_package(scores: Tensor) -> None:
    assert_close(ahop.separations.Entmax(1.5)(scores), entmax.entmax15(scores, dim=-1), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("alpha", [1.05, 1.2, 1.5, 1.8, 2.0])
@given(scores=score_rows(smallest_count=2))
def test_entmax_is_the_one_of_the_entmax_package(alpha: float, scores: Tensor) -> None:
    separation = ahop.separations.Entmax(alpha).double()
    expected = entmax.entmax_bisect(scores, alpha=float(separation.alpha), dim=-1, n_iter=100)
    assert_close(separation(scores), expected, rtol=1e-6, atol=1e-7)


@given(scores=score_rows())
def test_entmax_with_alpha_two_is_sparsemax(scores: Tensor) -> None:
    assert_close(ahop.separations.Entmax(2.0, beta=0.7)(scores), ahop.separations.Sparsemax(0.7)(scores))
    assert_close(
        ahop.separations.Entmax(2.0, beta=0.7).potential(scores), ahop.separations.Sparsemax(0.7).potential(scores)
    )


@pytest.mark.parametrize("alpha", [1.1, 1.5, 1.9])
def test_a_learned_alpha_has_the_right_gradients(alpha: float) -> None:
    separation = ahop.separations.Entmax(alpha, beta=1.3, learnable=True).double()
    start = separation.get_parameter("_alpha").detach()

    def weights(hidden: Tensor, scores: Tensor) -> Tensor:
        found: Tensor = functional_call(separation, {"_alpha": hidden}, (scores,))
        return found

    def potential(hidden: Tensor, scores: Tensor) -> Tensor:
        found: Tensor = functional_call(_Potential(separation), {"separation._alpha": hidden}, (scores,))
        return found

    inputs = (start.clone().requires_grad_(), APART.clone().requires_grad_())
    gradcheck(weights, inputs)
    gradcheck(potential, inputs)


@given(scores=score_rows())
def test_argmax_ties_share_equally(scores: Tensor) -> None:
    weights = ahop.separations.Argmax()(scores)
    best = scores == scores.amax(-1, keepdim=True)
    assert_close(weights, best / best.sum(-1, keepdim=True, dtype=torch.float64))


@every_separation
@given(scores=score_rows())
def test_a_pattern_stored_twice_weighs_twice_the_same(separation: Separation, scores: Tensor) -> None:
    doubled = separation(torch.cat([scores, scores[:, :1]], dim=-1))
    assert_close(doubled[:, -1], doubled[:, 0])


@given(scores=score_rows(smallest_count=3))
def test_softmax_leaves_the_odds_of_the_others_as_a_pattern_is_stored_twice(scores: Tensor) -> None:
    doubled = ahop.Softmax()(torch.cat([scores, scores[:, :1]], dim=-1))
    once = ahop.Softmax()(scores)
    assert_close(doubled[:, 1:-1] / doubled[:, 1:2], once[:, 1:] / once[:, 1:2])


@pytest.mark.parametrize(
    "make", [ahop.Softmax, ahop.separations.Sparsemax, lambda beta: ahop.separations.Entmax(1.5, beta)]
)
@pytest.mark.parametrize("beta", [0.0, -1.0, float("nan"), float("inf")])
def test_beta_must_be_positive(make: type[ahop.Softmax], beta: float) -> None:
    with pytest.raises(ahop.errors.InvalidValueError, match="`beta` must be positive and finite; got"):
        make(beta)


@pytest.mark.parametrize(("alpha", "learnable"), [(1.0, False), (0.5, False), (2.1, False), (2.0, True)])
def test_alpha_must_lie_between_softmax_and_sparsemax(alpha: float, learnable: bool) -> None:
    with pytest.raises(ahop.errors.InvalidValueError, match=r"`alpha` must lie in \(1, 2\].*use `Softmax`"):
        ahop.separations.Entmax(alpha, learnable=learnable)


@pytest.mark.parametrize("exponent", [0, -1, 1.5, True])
def test_an_exponent_must_be_a_whole_number(exponent: int, unchecked: None) -> None:
    with pytest.raises(ahop.errors.InvalidValueError, match="`exponent` must be a whole number of at least 1"):
        ahop.separations.Power(exponent)


@given(scores=score_rows())
def test_normmax_is_the_one_of_the_entmax_package(scores: Tensor) -> None:
    expected = entmax.normmax_bisect(scores, alpha=2, dim=-1, n_iter=80)
    assert_close(ahop.separations.Normmax()(scores), expected, rtol=1e-6, atol=1e-7)


@given(scores=score_rows())
def test_the_best_of_all_are_a_softmax_and_the_best_one_is_argmax(scores: Tensor) -> None:
    assert_close(ahop.separations.TopK(scores.shape[-1], 2.0)(scores), ahop.Softmax(2.0)(scores))
    assert_close(ahop.separations.TopK(1)(scores), ahop.separations.Argmax()(scores))


@given(scores=score_rows())
def test_a_ghost_far_below_takes_nothing_and_one_far_above_takes_all(scores: Tensor) -> None:
    assert_close(ahop.separations.GhostSoftmax(ghost=-1e4)(scores), ahop.Softmax()(scores))
    assert float(ahop.separations.GhostSoftmax(ghost=1e4)(scores).abs().max()) == 0


def test_patterns_within_reach_weigh_the_same_and_others_nothing() -> None:
    weights = ahop.separations.LogSumReLU(2.0)(torch.tensor([[-0.1, -0.2, -0.6], [-3.0, -4.0, -5.0]]))
    assert_close(weights[0], torch.tensor([1.0, 1.0, 0.0]) / 1.4, rtol=1e-5, atol=0)
    assert not bool(weights[1].any())


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: ahop.separations.Normmax(1.0), "`alpha` must be larger than 1"),
        (lambda: ahop.separations.TopK(0), "`k` must be"),
        (lambda: ahop.separations.GhostSoftmax(ghost=float("nan")), "`ghost` must be a finite number"),
        (lambda: ahop.separations.LogSumReLU(epsilon=0.0), "`epsilon` must be"),
    ],
)
def test_separations_refuse_what_makes_no_sense(make: Callable[[], Separation], words: str) -> None:
    with pytest.raises(ahop.errors.InvalidValueError, match=words):
        make()
