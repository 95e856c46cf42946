"""Weights for each pattern, drawn to what all patterns have in common."""

from dataclasses import dataclass
from math import inf
from typing import NoReturn, TypeAlias, final

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from tqdm.auto import tqdm

from ahop._core.checks import check_count, check_positive
from ahop.errors import InvalidTypeError, InvalidValueError
from ahop.fitting.pairs import GivenPairs, Source
from ahop.fitting.solvers.newton import ConvexSolver
from ahop.memory.memory import AssociativeMemory
from ahop.memory.report import SolverReport
from ahop.memory.scoring import with_prior
from ahop.separations.softmax import Softmax
from ahop.similarities.adaptive import AdaptiveSimilarity
from ahop.similarities.footprint import subspace_weights_of
from ahop.similarities.isolated import IsolatedSimilarity
from ahop.variants.base import Pairs

# Every so many pairs one is held out, to choose how strong the pull is.
HELD_OUT = 4
Bar: TypeAlias = "tqdm[NoReturn]"


@final
@dataclass(frozen=True)
class ShrinkageSolver:
    r"""The weights of an `IsolatedSimilarity`, $u_n = \bar u + \delta_n$, by a convex loss that pulls $\delta_n$ to 0.

    $\bar u$ is what all pairs say together. A pattern with $m$ pairs goes about $m / (m + \kappa)$ of the way from
    there to what its own pairs say, so that one without pairs has the common weights. The strength $\kappa$ is the one
    that predicts held-out pairs best; it may be infinite.

    Args:
        strengths: to choose among, as numbers of pairs.
        max_steps: of L-BFGS, for each of them.
    """

    strengths: tuple[float, ...] = (1.0, 4.0, 16.0, 64.0, inf)
    max_steps: int = 40

    def __post_init__(self) -> None:
        if not self.strengths:
            raise InvalidValueError("`strengths` must hold at least one; got none.")
        for strength in self.strengths:
            if strength != inf:
                check_positive("strengths", strength)
        check_count("max_steps", self.max_steps)

    def solve(self, memory: AssociativeMemory, source: Source, progress: bool) -> SolverReport:
        similarity = memory.similarity
        if not isinstance(similarity, IsolatedSimilarity) or not isinstance(memory.separation, Softmax):
            raise InvalidTypeError(
                f"Shrinkage is for an `IsolatedSimilarity` with softmax; this memory has {similarity!r} and "
                f"{memory.separation!r}."
            )
        pairs = source.draw()
        before = _loss(memory, pairs)
        shared = _shared(memory, similarity, pairs)
        strength = self.strengths[0]
        if len(self.strengths) > 1:
            strength = self._chosen(memory, similarity, pairs, progress)
        with tqdm(total=self.max_steps, desc="fit", unit="step", disable=not progress) as bar:
            steps = self._fit(memory, similarity, shared, pairs, strength, bar)
        return SolverReport(
            solver=f"{self!r}, strength {strength:g}",
            pairs=len(pairs),
            steps=steps,
            loss_before=before,
            loss=_loss(memory, pairs),
            converged=steps < self.max_steps,
        )

    def _chosen(self, memory: AssociativeMemory, similarity: IsolatedSimilarity, pairs: Pairs, progress: bool) -> float:
        """The strength whose fit to most of the pairs makes the others likeliest."""
        held_out = torch.arange(len(pairs)) % HELD_OUT == 0
        known, others = (Pairs(pairs.origins[rows], pairs.queries[rows]) for rows in (~held_out, held_out))
        if not len(known):
            return max(self.strengths)
        losses, shared = {}, _shared(memory, similarity, known)
        with tqdm(self.strengths, desc="strength", disable=not progress) as bar:
            for strength in bar:
                self._fit(memory, similarity, shared, known, strength, None)
                losses[strength] = _loss(memory, others)
        return min(losses, key=lambda each: losses[each])

    def _fit(
        self,
        memory: AssociativeMemory,
        similarity: IsolatedSimilarity,
        shared: Tensor,
        pairs: Pairs,
        strength: float,
        bar: "Bar | None",
    ) -> int:
        """Set the weights; how many steps it took."""
        scale = shared.square().mean(-1, keepdim=True).sqrt().clamp_min(1e-12)
        moved = torch.zeros_like(similarity.weights, requires_grad=True)
        patterns = memory.modulation(memory.patterns)
        if strength != inf:
            penalty = strength / (2 * shared.shape[-1] * len(pairs))
            optimizer = torch.optim.LBFGS([moved], max_iter=self.max_steps, line_search_fn="strong_wolfe")

            def closure() -> Tensor:
                optimizer.zero_grad()
                scores = similarity.scored(shared + scale * moved, patterns, pairs.queries)
                if memory.log_prior is not None:
                    scores = with_prior(scores, memory.log_prior, memory.separation.beta)
                loss = cross_entropy(memory.separation.beta * scores, pairs.origins) + penalty * moved.square().sum()
                loss.backward()  # type: ignore[no-untyped-call]
                if bar is not None:
                    bar.update()
                return loss

            with torch.enable_grad():
                optimizer.step(closure)  # type: ignore[no-untyped-call]
        with torch.no_grad():
            similarity.weights.copy_(subspace_weights_of(shared + scale * moved.detach()))
        return int(optimizer.state[moved].get("n_iter", 0)) if strength != inf else 0


def _shared(memory: AssociativeMemory, similarity: IsolatedSimilarity, pairs: Pairs) -> Tensor:
    """The rank weights that all pairs ask for together, (bases, 1, d)."""
    common = AdaptiveSimilarity(similarity.dimensions, similarity._bases())
    together = AssociativeMemory(
        memory.patterns, common, memory.separation, memory.modulation, log_prior=memory.log_prior
    )
    ConvexSolver().solve(together, GivenPairs(pairs), progress=False)
    return common.coefficients.detach().view(len(similarity.bases), 1, -1).to(similarity.weights)


def _loss(memory: AssociativeMemory, pairs: Pairs) -> float:
    with torch.no_grad():
        return float(cross_entropy(memory.separation.beta * memory.scores(pairs.queries), pairs.origins))
