"""A step that lowers the energy of sorted similarities."""

from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor
from typing_extensions import override

from ahop._core.blocks import blocks
from ahop._core.missing import filled, holds_nan, observed
from ahop._core.typing import Queries
from ahop.energies.free import FreeEnergy
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
