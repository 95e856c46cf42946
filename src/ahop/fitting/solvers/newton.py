"""Newton's method for similarities that are linear in their coefficients: the global optimum in a few steps."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from math import frexp, isfinite
from typing import NoReturn, TypeAlias, final

import torch
from torch import Tensor
from tqdm.auto import tqdm

from ahop._core.blocks import blocks
from ahop._core.checks import check_count, check_not_negative, check_positive
from ahop._core.missing import holds_nan
from ahop._core.typing import Scores
from ahop.errors import InvalidTypeError, InvalidValueError
from ahop.fitting.pairs import Source
from ahop.fitting.solvers.cone import Cone
from ahop.fitting.solvers.losses import fenchel_young_loss
from ahop.memory.memory import AssociativeMemory
from ahop.memory.report import SolverReport
from ahop.separations.base import Separation
from ahop.similarities.base import LinearSimilarity
from ahop.variants.base import Pairs

# Pairs with less weight than this add nothing to a gradient that float32 could show.
NEGLIGIBLE = 1e-7
# Keeps directions that no pair speaks of at rest.
LEAST_PENALTY = 1e-8
# What a part of the pairs is solved to, in how many steps at most (few pairs can be told apart without error, by scores
# that sharpen for ever), and how many pairs a part has at least.
NEAR, NEAR_STEPS, LEAST_PART = 1e-2, 3, 128
# Features up to two to this power, and down to one over it, have squares whose sums fit into float32.
MODERATE = 50

Bar: TypeAlias = "tqdm[NoReturn]"


@final
@dataclass(frozen=True)
class ConvexSolver:
    r"""Damped Newton steps on $\frac1m \sum \Psi^*(s) - s_k$ plus a smoothness penalty, in the coefficients of a
    `LinearSimilarity`.

    The loss is a conditional logit whose features are, for a footprint, the sorted per-dimension similarities: convex,
    so every start ends in the same place. Scores move linearly along a step, so a step costs one scan of the pairs,
    and the line search is free. Only pairs with weight enter the gradient and the Hessian.

    Args:
        smoothness: strength of the pull towards the base similarity, as if a few pairs had said so; it fades as
            real pairs come in. Zero turns it off.
        tolerance: stop when Newton's own estimate of what is left to gain is below this.
        max_steps: give up after so many.
        monotone: keep the rank weights falling, for which `RankedReadout` never raises the energy.
        from_given: start at the coefficients that the similarity has, which were fitted to much the same pairs.
    """

    smoothness: float = 0.25
    tolerance: float = 1e-6
    max_steps: int = 50
    monotone: bool = False
    from_given: bool = field(default=False, repr=False)

    def __post_init__(self) -> None:
        check_not_negative("smoothness", self.smoothness)
        check_positive("tolerance", self.tolerance)
        check_count("max_steps", self.max_steps)

    def solve(self, memory: AssociativeMemory, source: Source, progress: bool) -> SolverReport:
        similarity = memory.similarity
        if not isinstance(similarity, LinearSimilarity):
            raise InvalidTypeError(
                f"The convex solver needs a similarity that is linear in its coefficients; {similarity!r} is not. "
                "Use `solver='adam'`."
            )
        pairs = _comparable(memory.patterns, source.draw())
        with torch.no_grad():
            unit = _unit(memory, similarity, pairs)
            problem = _pose(memory, similarity, pairs, self.smoothness, unit)
            given = similarity.coefficients.double() * unit
            before = problem.loss(problem.score(given))
            directions = _directions(given, similarity.starts())
            cone = Cone(*similarity.cone()) if self.monotone else None
            with tqdm(total=self.max_steps, desc="fit", unit="step", disable=not progress) as bar:
                near = _Outcome(given, 0, before, converged=False)
                if not self.from_given:
                    few = _pose(memory, similarity, _part(pairs), self.smoothness, unit)
                    near = self._approach(few, directions, cone, bar)
                outcome = _minimize(problem, near.coefficients, self.tolerance, self.max_steps - near.steps, bar, cone)
            if cone is None:
                similarity.set_coefficients(outcome.coefficients / unit)
            else:
                similarity.set_mixture(cone.mixture(outcome.coefficients) / unit)
        return SolverReport(
            solver=repr(self),
            pairs=len(pairs),
            steps=near.steps + outcome.steps,
            loss_before=before,
            loss=outcome.loss,
            converged=outcome.converged,
        )

    def _approach(self, few: "_Problem", directions: Tensor, cone: Cone | None, bar: Bar) -> "_Outcome":
        """Scans of all the pairs are expensive: find the scale of the scores, then go most of the way, on a part.

        The scale is sought from zero, where the loss is curved; where scores are far too sharp it is flat.
        """
        none = torch.zeros_like(directions[:, 0])
        scaled = _minimize(few.restricted(directions), none, self.tolerance, self.max_steps, bar)
        return _minimize(few, scaled.coefficients @ directions, NEAR, min(NEAR_STEPS, self.max_steps), bar, cone)


@dataclass(frozen=True)
class _Outcome:
    coefficients: Tensor
    steps: int
    loss: float
    converged: bool


@dataclass(frozen=True)
class _Problem:
    """The loss of some pairs as a function of coefficients.

    Attributes:
        score: coefficients -> scores (b, n), linear.
        features: numbers of queries and of patterns, (m,) each -> what the coefficients weigh there, (m, p).
        penalty: (p, p), the quadratic form that is added to the loss.
    """

    separation: Separation
    origins: Tensor
    offset: Tensor | float
    score: Callable[[Tensor], Tensor]
    features: Callable[[Tensor, Tensor], Tensor]
    penalty: Tensor

    def loss(self, scores: Scores) -> float:
        return float(fenchel_young_loss(self.separation, scores + self.offset, self.origins).double().mean())

    def objective(self, scores: Scores, coefficients: Tensor) -> float:
        return self.loss(scores) + 0.5 * float(coefficients @ self.penalty @ coefficients)

    def derivatives(self, scores: Scores, coefficients: Tensor) -> tuple[Tensor, Tensor]:
        """Gradient and Hessian of the objective; features are taken relative to the origin's, which changes neither."""
        size = len(coefficients)
        gradient, hessian = torch.zeros_like(coefficients), torch.zeros_like(self.penalty)
        for rows in blocks(len(scores), 3 * scores.shape[1] * size * scores.element_size()):
            weights = self.separation(scores[rows] + self.offset)
            curvature = self.separation.curvature(weights)
            row, column = (torch.maximum(weights, curvature) > NEGLIGIBLE).nonzero(as_tuple=True)
            queries = torch.arange(rows.start, rows.stop, device=scores.device)
            features = self.features(queries[row], column) - self.features(queries, self.origins[rows])[row]
            gradient += (weights[row, column] @ features).double()
            bend = curvature[row, column].unsqueeze(-1)
            sums = features.new_zeros(len(weights), size).index_add_(0, row, features * bend)
            totals = features.new_zeros(len(weights), 1).index_add_(0, row, bend).clamp_min(1e-30)
            # About their means: a difference of squares would drown the curvature of sharp scores in rounding.
            features -= (sums / totals)[row]
            hessian += (features.mT @ (features * bend)).double()
        count = len(scores)
        return gradient / count + self.penalty @ coefficients, hessian / count + self.penalty

    def restricted(self, directions: Tensor) -> "_Problem":
        """Restrict the problem to mixtures of a few coefficient vectors (m, p), with all their scores at hand."""
        scores = torch.stack([self.score(direction) for direction in directions], dim=-1)
        return replace(
            self,
            score=lambda mixture: scores @ mixture.to(scores),
            features=lambda query, column: scores[query, column],
            penalty=directions @ self.penalty @ directions.mT,
        )


def _unit(memory: AssociativeMemory, similarity: LinearSimilarity, pairs: Pairs) -> float:
    """Unit of the coefficients: one, but where features are so large or small that their squares overflow."""
    patterns = memory.modulation(memory.patterns)
    own = similarity.features(patterns[pairs.origins].unsqueeze(-2), pairs.queries.unsqueeze(-2))
    other = similarity.features(patterns[(pairs.origins + 1) % len(memory)].unsqueeze(-2), pairs.queries.unsqueeze(-2))
    largest = float(torch.maximum(own.abs().amax(), other.abs().amax()))
    if not isfinite(largest):
        raise InvalidValueError(
            f"The values are too large for {patterns.dtype}: their similarities overflow. Subtract their mean and "
            "divide by their standard deviation, or pass float64."
        )
    exponent = frexp(largest)[1]
    return 1.0 if abs(exponent) <= MODERATE else 2.0**exponent


def _pose(
    memory: AssociativeMemory, similarity: LinearSimilarity, pairs: Pairs, smoothness: float, unit: float
) -> _Problem:
    patterns = memory.modulation(memory.patterns)

    def score(coefficients: Tensor) -> Scores:
        similarity.set_coefficients(coefficients / unit)
        return similarity(patterns, pairs.queries)

    def features(query: Tensor, column: Tensor) -> Tensor:
        found = similarity.features(patterns[column].unsqueeze(-2), pairs.queries[query].unsqueeze(-2)).flatten(1)
        return found / unit

    numbers = torch.arange(len(pairs))
    # Any other pattern will do for the scale: the difference it makes to the features is what a coefficient weighs.
    others = (pairs.origins + 1 + numbers % max(1, len(memory) - 1)) % len(memory)
    spread = (features(numbers, others) - features(numbers, pairs.origins)).double().square().mean(0)
    rough = similarity.roughness()
    scale = (rough.abs() @ spread) / rough.abs().sum(-1).clamp_min(1e-300)
    strength = smoothness * similarity.dimensions / len(pairs)
    # Pairs that can be told apart without error would drive the scale of the scores up for ever.
    bounded = LEAST_PENALTY + 0.01 * smoothness / len(pairs)
    penalty = strength * (rough.mT * scale) @ rough + bounded * torch.diag(spread)
    offset = 0.0 if memory.log_prior is None else memory.log_prior / memory.separation.beta
    return _Problem(memory.separation, pairs.origins, offset, score, features, penalty)


def _comparable(patterns: Tensor, pairs: Pairs) -> Pairs:
    """The pairs that share an observed dimension with their origin: the others have no features to learn from."""
    if not holds_nan(patterns, pairs.queries):
        return pairs
    seen = ~(torch.isnan(patterns[pairs.origins]) | torch.isnan(pairs.queries)).all(-1)
    if not bool(seen.any()):
        raise InvalidValueError("No copy shares an observed dimension with its origin; there is nothing to learn from.")
    return Pairs(pairs.origins[seen], pairs.queries[seen])


def _part(pairs: Pairs) -> Pairs:
    """A quarter of the pairs, or all of them where that would be too few to tell anything."""
    size = max(len(pairs) // 4, LEAST_PART)
    return Pairs(pairs.origins[:size], pairs.queries[:size])


def _directions(coefficients: Tensor, starts: Tensor) -> Tensor:
    """The starts, and the coefficients themselves unless they are a mixture of these."""
    mixture: Tensor = torch.linalg.lstsq(starts.mT, coefficients.unsqueeze(-1)).solution.squeeze(-1)
    if torch.allclose(mixture @ starts, coefficients):
        return starts
    return torch.cat([starts, coefficients.unsqueeze(0)])


def _minimize(
    problem: _Problem, coefficients: Tensor, tolerance: float, max_steps: int, bar: Bar, cone: Cone | None = None
) -> _Outcome:
    """Newton steps; inside a cone, to the minimum of the quadratic model there. Either way scores move linearly."""
    if cone is not None:
        coefficients = cone.nearest(coefficients)
    scores = problem.score(coefficients)
    objective = problem.objective(scores, coefficients)
    for taken in range(max_steps):
        gradient, hessian = problem.derivatives(scores, coefficients)
        damping = 1e-9 * hessian.diagonal().mean() + 1e-30
        damped = hessian + damping * torch.eye(len(gradient), dtype=torch.float64)
        step = -torch.linalg.solve(damped, gradient) if cone is None else cone.step(coefficients, gradient, damped)
        gain = -float(gradient @ step)
        if gain < 2 * tolerance:
            return _Outcome(coefficients, taken, problem.loss(scores), True)
        change = problem.score(step)
        length = 1.0
        while (
            problem.objective(scores + length * change, coefficients + length * step) > objective - 1e-4 * length * gain
        ):
            length /= 2
            if length < 1e-9:
                return _Outcome(coefficients, taken, problem.loss(scores), False)
        scores, coefficients = scores + length * change, coefficients + length * step
        objective = problem.objective(scores, coefficients)
        bar.update()
        bar.set_postfix(loss=f"{objective:.4f}")
    return _Outcome(coefficients, max_steps, problem.loss(scores), False)
