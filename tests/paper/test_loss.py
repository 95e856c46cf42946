"""The discrepancy loss [eqn:loss], and what a learnable U can add to it: nothing."""

from math import exp, log

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from ahop import AssociativeMemory, EuclideanSimilarity, MixedVariant, Pairs, Softmax, fit
from ahop.fitting import ConvexSolver
from ahop.fitting.solvers.losses import fenchel_young_loss
from ahop.memory.report import SolverReport
from ahop.separations import Entmax, Sparsemax
from ahop.separations.base import Separation
from ahop.similarities import FootprintSimilarity
from tests.paper.worlds import few, gaussian, matrices, uniform_patterns


@few
@given(matrices(3, 5), st.lists(st.integers(0, 4), min_size=3, max_size=3))
def test_the_loss_of_a_softmax_is_minus_the_logarithm_of_the_origins_weight(scores: Tensor, origins: list[int]) -> None:
    loss = fenchel_young_loss(Softmax(), scores, torch.tensor(origins))
    for row, origin, value in zip(scores.tolist(), origins, loss.tolist(), strict=True):
        weight = exp(row[origin]) / sum(exp(score) for score in row)
        assert value == pytest.approx(-log(weight), abs=1e-9)


@few
@given(matrices(3, 5), st.lists(st.integers(0, 4), min_size=3, max_size=3))
def test_the_loss_of_a_sharper_softmax_is_the_papers_divided_by_beta(scores: Tensor, origins: list[int]) -> None:
    loss = fenchel_young_loss(Softmax(beta=3.0), scores, torch.tensor(origins))
    printed = -torch.log_softmax(3 * scores, dim=-1).gather(-1, torch.tensor(origins)[:, None]).squeeze(-1)
    torch.testing.assert_close(loss, printed / 3)


@pytest.mark.parametrize("separation", [Sparsemax(), Entmax(1.5)], ids=repr)
def test_the_printed_loss_is_infinite_where_a_sparse_separation_leaves_the_origin_out(separation: Separation) -> None:
    scores, origin = torch.tensor([[0.0, 5.0]], dtype=torch.float64), torch.tensor([0])
    assert float(-separation(scores)[0, 0].log()) == torch.inf
    assert 0 < float(fenchel_young_loss(separation, scores, origin)) < 10


@pytest.mark.parametrize("separation", [Softmax(), Softmax(3.0), Sparsemax(), Entmax(1.5)], ids=repr)
def test_the_gradient_of_the_loss_is_weight_minus_truth(separation: Separation) -> None:
    scores = gaussian(4, 5).requires_grad_()
    origins = torch.tensor([0, 3, 1, 4])
    (slope,) = torch.autograd.grad(fenchel_young_loss(separation, scores, origins).sum(), scores)
    torch.testing.assert_close(slope, separation(scores.detach()) - torch.eye(5, dtype=torch.float64)[origins])


def test_what_the_paper_calls_a_likelihood_sums_to_one_over_the_patterns_and_is_a_posterior() -> None:
    memory = AssociativeMemory(uniform_patterns(6, 4))
    weights = memory.weights(gaussian(5, 4)).detach()
    torch.testing.assert_close(weights.sum(-1), torch.ones(5, dtype=torch.float64))


# --- a learnable U [tab:ablation-2]


def sorted_similarities(patterns: Tensor, pairs: Pairs) -> Tensor:
    """q~ of every query and pattern, (b, n, d)."""
    values = EuclideanSimilarity().per_dimension(patterns, pairs.queries)
    return values.sort(-1, descending=True).values


def best_loss_with_learnable_triangle(features: Tensor, origins: Tensor, start: Tensor) -> float:
    """The least cross-entropy of s = w^T U q~ with every entry of w and U free."""
    U = start.clone().requires_grad_()
    w = torch.linalg.solve(start.mT, torch.ones(len(start), dtype=torch.float64)).requires_grad_()
    optimizer = torch.optim.LBFGS([U, w], max_iter=400, tolerance_grad=1e-9, line_search_fn="strong_wolfe")

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(features @ (U.mT @ w), origins)
        loss.backward()  # type: ignore[no-untyped-call]
        return loss

    for _ in range(4):
        optimizer.step(closure)  # type: ignore[no-untyped-call]
    return float(closure().detach())


def test_a_learnable_triangle_reaches_the_same_optimum_and_no_lower_one() -> None:
    """As s = w^T U q~ = u^T q~, whatever full-rank U is learned, u = U^T w could have been had without it."""
    dimensions = 6
    patterns = uniform_patterns(12, dimensions)
    pairs = MixedVariant(0.4, 0.4, 0.0).sample(patterns, 600)
    similarity = FootprintSimilarity(EuclideanSimilarity(), dimensions)
    fitted = fit(
        AssociativeMemory(patterns, similarity),
        pairs=pairs,
        solver=ConvexSolver(smoothness=0.0, tolerance=1e-10),
        progress=False,
    )
    assert isinstance(fitted.report, SolverReport)
    optimum = fitted.report.loss
    features = sorted_similarities(patterns, pairs)
    triangle = torch.ones(dimensions, dimensions, dtype=torch.float64).tril()
    for start in (triangle, torch.eye(dimensions, dtype=torch.float64), gaussian(dimensions, dimensions, seed=4)):
        assert best_loss_with_learnable_triangle(features, pairs.origins, start) == pytest.approx(optimum, abs=2e-5)
    assert optimum < fitted.report.loss_before - 0.05, "there was something to learn"


def test_every_start_of_the_convex_fit_ends_in_the_same_place() -> None:
    patterns = uniform_patterns(12, 6)
    pairs = MixedVariant(0.4, 0.4, 0.0).sample(patterns, 600)
    losses = []
    for seed in range(3):
        similarity = FootprintSimilarity(EuclideanSimilarity(), 6)
        with torch.no_grad():
            similarity.weights.copy_(gaussian(6, seed=seed))
        fitted = fit(AssociativeMemory(patterns, similarity), pairs=pairs, progress=False)
        assert isinstance(fitted.report, SolverReport)
        losses.append(fitted.report.loss)
    assert max(losses) - min(losses) < 1e-4
