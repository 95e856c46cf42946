"""Steps that read the next state off the weights: plain, without bias, and of sorted similarities."""

from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor
from typing_extensions import override

from ahop._core.blocks import blocks
from ahop._core.missing import filled, holds_nan, observed
from ahop._core.typing import Queries
from ahop.energies.free import FreeEnergy
from ahop.energies.quadratic import QuadraticEnergy
from ahop.errors import InvalidTypeError
from ahop.memory.memory import AssociativeMemory
from ahop.modulations.unmodulated import Unmodulated
from ahop.paper.dynamics.base import Dynamics
from ahop.separations.softmax import Softmax
from ahop.similarities.adaptive import AdaptiveSimilarity
from ahop.similarities.base import DecomposableSimilarity
from ahop.similarities.dot import DotSimilarity
from ahop.similarities.euclidean import EuclideanSimilarity
from ahop.similarities.footprint import FootprintSimilarity
from ahop.similarities.unified import UnifiedSimilarity


@final
@dataclass(frozen=True)
class Readout(Dynamics):
    r"""$x \leftarrow \mathcal T(x) = \mathrm{sep}(s)\,\Xi$.

    With dot products, a convex potential and the quadratic energy (M-, S- and K-Hop) this is the concave-convex
    procedure, so the energy falls. Not so where stored patterns have gaps (NaN): scores are made up for these, and the
    readout is not their gradient.

    Paper:
        Section 2.1, the retrieval dynamics $\mathcal T$.
    """

    @override
    def step(self, memory: AssociativeMemory, states: Queries) -> Queries:
        return memory.read(memory.weights(states))

    @override
    def descends(self, memory: AssociativeMemory) -> bool:
        return (
            isinstance(memory.similarity, DotSimilarity)
            and isinstance(memory.energy_function, QuadraticEnergy)
            and memory.separation.is_convex
            and memory.separation.is_distribution
            and not holds_nan(memory.patterns)
        )


@final
@dataclass(frozen=True)
class DebiasedReadout(Dynamics):
    r"""$x \leftarrow \mathcal T(x) + b/2$, answer $x - b/2$, for $s = -\lVert x - \xi \rVert^2 + b^\top(x - \xi)$.

    States live among the biased queries and rest near $\xi + d$, $d = b/2$; the answer takes the bias off again.
    One proof of the paper prints $-b/2$ for the step, which does not lower the energy.

    Paper:
        [eqn:ret]; that it lowers the energy is [lem:dec] with its inequality [eqn:dec], and that the energy is bounded
        [thm:energy].
    """

    bias: torch.Tensor

    @classmethod
    def of(cls, memory: AssociativeMemory) -> "DebiasedReadout":
        """The dynamics that belongs to a memory with a unified similarity."""
        if not isinstance(memory.similarity, UnifiedSimilarity):
            raise InvalidTypeError(
                f"A de-biased readout needs a `UnifiedSimilarity`; this memory has {memory.similarity!r}."
            )
        similarity = memory.similarity
        return cls((similarity.slope / (2 * similarity.precision)).detach().to(memory.patterns))

    @override
    def step(self, memory: AssociativeMemory, states: Queries) -> Queries:
        return memory.read(memory.weights(states)) + self.bias

    @override
    def answer(self, memory: AssociativeMemory, states: Queries) -> Queries:
        return states - self.bias

    @override
    def descends(self, memory: AssociativeMemory) -> bool:
        return (
            isinstance(memory.similarity, UnifiedSimilarity)
            and bool((memory.similarity.precision == 1).all())
            and torch.equal(memory.similarity.slope.detach().to(self.bias), 2 * self.bias)
            and isinstance(memory.energy_function, FreeEnergy)
            and isinstance(memory.separation, Softmax)
            and memory.separation.beta == 1
            and memory.separation.floor == 0
            and not holds_nan(memory.patterns)
        )


# A coordinate that no likely pattern holds by its distance stays where it is.
LEAST_HOLD = 1e-30


@final
@dataclass(frozen=True)
class RankedReadout(Dynamics):
    r"""$x_i \leftarrow \sum_k p_k (u_{r(k,i)} + \tfrac12 v_{r'(k,i)})\,\xi_{ki} \big/ \sum_k p_k u_{r(k,i)}$.

    For footprints of the squared distance with rank weights $u$, and of the dot product with $v$: dimension $i$ has
    rank $r(k, i)$ among the distances to pattern $k$, and $r'(k, i)$ among its products. Where
    $u_1 \ge \dots \ge u_d \ge 0$ and $v_1 \ge \dots \ge v_d$, no step raises the energy;
    `ConvexSolver(monotone=True)` fits such weights. With $u = \mathbf 1$, $v = 0$ it is the plain readout,
    which also fills the gaps (NaN) of a state.

    See :doc:`/paper/ranked_readout` for the proof.
    """

    @override
    def step(self, memory: AssociativeMemory, states: Queries) -> Queries:
        distance, product = _rank_weights(memory)
        patterns, known = memory.patterns, observed(memory.patterns)
        moved = torch.empty_like(states)
        for rows in blocks(len(states), 6 * patterns.numel() * patterns.element_size()):
            part = states[rows]
            likely = memory.weights(part)
            weights = likely.unsqueeze(-1) * known
            held = weights * _by_rank(EuclideanSimilarity(), distance, patterns, part)
            pulled = held
            if product is not None:
                pulled = held + 0.5 * weights * _by_rank(DotSimilarity(), product, patterns, part)
            hold = held.sum(-2)
            ranked = (pulled * filled(patterns)).sum(-2) / hold.clamp_min(LEAST_HOLD)
            step = torch.where(hold > LEAST_HOLD, ranked, part)
            # What was not observed has no rank yet: the plain readout fills it.
            moved[rows] = torch.where(part.isnan().any(-1, keepdim=True), memory.read(likely), step)
        return moved

    @override
    def answer(self, memory: AssociativeMemory, states: Queries) -> Queries:
        """Read the weighted patterns: with a dot product in the score, a state rests beyond its pattern."""
        return memory.read(memory.weights(states))

    @override
    def descends(self, memory: AssociativeMemory) -> bool:
        if not isinstance(memory.similarity, AdaptiveSimilarity | FootprintSimilarity) or holds_nan(memory.patterns):
            return False
        try:
            distance, product = _rank_weights(memory)
        except InvalidTypeError:
            return False
        return (
            _falls(distance)
            and bool(distance[-1] >= 0)
            and (product is None or _falls(product))
            and isinstance(memory.energy_function, FreeEnergy)
            and isinstance(memory.separation, Softmax)
            and memory.separation.floor == 0
        )


def _rank_weights(memory: AssociativeMemory) -> tuple[Tensor, Tensor | None]:
    """Those of the distance, and of the product if the similarity has one."""
    similarity = memory.similarity
    if isinstance(similarity, AdaptiveSimilarity):
        bases = [part.base for part in similarity.footprints if isinstance(part, FootprintSimilarity)]
        weights = list(similarity.coefficients.detach().view(len(bases), -1))
    elif isinstance(similarity, FootprintSimilarity):
        bases, weights = [similarity.base], [similarity.coefficients.detach()]
    else:
        bases, weights = [], []
    by_kind = {type(base): each.to(memory.patterns) for base, each in zip(bases, weights, strict=True)}
    distance, product = by_kind.pop(EuclideanSimilarity, None), by_kind.pop(DotSimilarity, None)
    if not isinstance(memory.modulation, Unmodulated):
        raise InvalidTypeError(f"A ranked readout needs patterns as they are; this memory has {memory.modulation!r}.")
    if distance is None or by_kind or len(set(map(type, bases))) < len(bases):
        raise InvalidTypeError(
            "A ranked readout needs a footprint of the Euclidean similarity, with or without one of the dot product; "
            f"this memory has {similarity!r}."
        )
    return distance, product


def _by_rank(base: DecomposableSimilarity, weights: Tensor, patterns: Tensor, states: Tensor) -> Tensor:
    """Weight of each dimension for each pattern, (b, n, d)."""
    order = base.addends(patterns, states).argsort(-1, descending=True)
    return torch.empty_like(order, dtype=weights.dtype).scatter_(-1, order, weights.expand(order.shape))


def _falls(weights: Tensor) -> bool:
    return bool((weights[:-1] >= weights[1:]).all())
