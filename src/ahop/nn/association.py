"""Similarity, separation and modulation over patterns that change from call to call."""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor, nn
from torch.nn.functional import dropout, scaled_dot_product_attention

from ahop._core.checks import check_kind, check_rate
from ahop._core.missing import holds_nan
from ahop._core.tensors import lowest, saturate
from ahop._core.typing import Patterns, PerQuery, Queries, Scores, Weights
from ahop.energies.free import FreeEnergy
from ahop.energies.quadratic import QuadraticEnergy
from ahop.errors import ShapeError
from ahop.modulations.base import Modulation
from ahop.modulations.unmodulated import Unmodulated
from ahop.nn.base import Layer
from ahop.nn.convergence import Convergence
from ahop.nn.masks import without_never
from ahop.nn.scaling import Scaling, scaling_of
from ahop.separations.base import Separation
from ahop.separations.softmax import Softmax
from ahop.similarities.base import Similarity
from ahop.similarities.dot import DotSimilarity
from ahop.similarities.euclidean import EuclideanSimilarity

HALVES = (torch.float16, torch.bfloat16)


@dataclass(frozen=True)
class Associated:
    """Result of an association.

    Attributes:
        retrieved: what the weights stand for, (..., b, v).
        weights: how much each stored pattern counts, (..., b, n).
        energies: of the states, (..., b).
        states: where the queries went in the space that they are compared in, (..., b, d).
        patterns: the stored patterns in that space, (..., n, d).
        values: what is read, (..., n, v).
        updates: how often each state was moved, (..., b).
    """

    retrieved: Tensor
    weights: Tensor
    energies: Tensor
    states: Tensor
    patterns: Tensor
    values: Tensor
    updates: Tensor


@final
class Association(Layer):
    r"""$y = \mathrm{sep}(c \cdot \mathrm{sim}(\mathrm{mod}(\Xi), x))\,V$ for each sample of a batch.

    It has no projections: patterns are compared and read as they are, so an association alone is a memory of its input.
    Axes before the last two are batches; the last of these are the heads, where parts differ by head. They broadcast.

    A dot product with a softmax runs as torch's fused attention wherever no weights are asked for.

    Args:
        similarity: default minus the squared distance, by which every pattern is nearest to itself; a list has one for
            each head.
        separation: default softmax.
        modulation: of the patterns before they are compared; default none.
        scaling: $c$, a number or one for each head.
        learn_scaling: whether $c$ is a parameter.
        updates: how often $x$ is replaced by what the weights read from the patterns; None for until it rests.
        tolerance: a query rests when its weights change by no more than this in Euclidean norm, judged on its own.
        dropout: of weights, while training.

    Example:
        >>> images = torch.eye(3)
        >>> Association(separation=Softmax(beta=20.0)).retrieve(images[:1] + 0.1, images).round()
        tensor([[1., 0., 0.]])
    """

    def __init__(
        self,
        similarity: Similarity | Sequence[Similarity] | None = None,
        separation: Separation | None = None,
        modulation: Modulation | None = None,
        *,
        scaling: float | Sequence[float] | Tensor = 1.0,
        learn_scaling: bool = False,
        updates: int | None = 0,
        tolerance: float | None = None,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        similarity = EuclideanSimilarity() if similarity is None else similarity
        each = [similarity] if isinstance(similarity, Similarity) else list(similarity)
        self.similarities = nn.ModuleList(check_kind("similarity", part, Similarity) for part in each)
        self.separation = check_kind("separation", separation or Softmax(), Separation)
        self.modulation = check_kind("modulation", modulation or Unmodulated(), Modulation)
        self.scaling: Scaling = scaling_of(scaling, learn_scaling)
        self.settling = Convergence(updates, tolerance)
        self.dropout = check_rate("dropout", dropout)

    def configuration(self) -> dict[str, object]:
        similarities = self._similarities()
        return {
            "similarity": similarities if len(similarities) > 1 else similarities[0],
            "separation": self.separation,
            "modulation": self.modulation,
            **self.scaling.configuration(),
            "updates": self.settling.most,
            "tolerance": self.settling.tolerance,
            "dropout": self.dropout,
        }

    def forward(
        self,
        queries: Tensor,
        patterns: Tensor,
        values: Tensor | None = None,
        mask: Tensor | None = None,
        log_prior: Tensor | None = None,
    ) -> Tensor:
        """Retrieve a value for each query, (..., b, v).

        Args:
            queries: (..., b, d); NaN where nothing was observed.
            patterns: (..., n, d).
            values: (..., n, v), what is read in the place of the patterns.
            mask: (..., b, n), True where a pattern takes part. A query without any gets zeros.
            log_prior: (..., b, n), added to the scores behind the sharpening; minus infinity for never.
        """
        if self._is_fused() and not holds_nan(queries, patterns):
            return self.attend(queries, patterns, values, mask, log_prior)
        return self._read(self.weights(queries, patterns, mask, log_prior), patterns if values is None else values)

    def retrieve(
        self, queries: Tensor, patterns: Tensor, mask: Tensor | None = None, log_prior: Tensor | None = None
    ) -> Tensor:
        """The stored patterns that the queries stand for, (..., b, d): what calling it without `values` does."""
        return self.forward(queries, patterns, None, mask, log_prior)

    def weights(
        self,
        queries: Tensor,
        patterns: Tensor,
        mask: Tensor | None = None,
        log_prior: Tensor | None = None,
        *,
        joint: bool = False,
    ) -> Weights:
        """Association weights, (..., b, n); exactly zero where the mask is False.

        Args:
            joint: add up the scores of all heads first, as each is evidence for the same pattern; the axis of the heads
                has length one then.
        """
        return self._settle(queries, patterns, mask, log_prior, joint)[0].to(queries.dtype)

    def energy(
        self, queries: Tensor, patterns: Tensor, mask: Tensor | None = None, log_prior: Tensor | None = None
    ) -> PerQuery:
        r"""$E(x) = c\,Q(x) - \Psi^*(s)$, (..., b), before any update.

        $Q = \tfrac12 x^\top \mathrm{mod}(x)$ for inner products, zero for similarities that fall off by themselves.
        """
        mask, log_prior = without_never(mask, log_prior)
        queries, patterns = _alike(*_in_full(queries, patterns))
        scores = self._raw_scores(queries, self.modulation(patterns))
        return self._energies(queries, self._adjust(scores, mask, log_prior))

    def associate(
        self,
        queries: Tensor,
        patterns: Tensor,
        values: Tensor | None = None,
        mask: Tensor | None = None,
        log_prior: Tensor | None = None,
    ) -> Associated:
        """Answer as `forward` does, with everything on the way to it."""
        weights, states, steps = self._settle(queries, patterns, mask, log_prior)
        with _without_autocast(queries):
            energies = self.energy(states, patterns, mask, log_prior).to(queries.dtype)
        weights, values = weights.to(queries.dtype), patterns if values is None else values
        retrieved = self._read(weights, values)
        return Associated(retrieved, weights, energies, states.to(queries.dtype), patterns, values, steps)

    def attend(
        self,
        queries: Tensor,
        patterns: Tensor,
        values: Tensor | None = None,
        mask: Tensor | None = None,
        log_prior: Tensor | None = None,
    ) -> Tensor:
        """`forward` for data in which everything was observed, and which is not searched for gaps."""
        values = patterns if values is None else values
        if not self._is_fused():
            return self._read(self.weights(queries, patterns, mask, log_prior), values)
        modulated, (mask, log_prior) = self.modulation(patterns), without_never(mask, log_prior)
        chosen, alive = mask, None
        if mask is not None:
            # A query that nothing is there for: let it see all, and forget what it saw. No NaN on the way, either.
            alive = mask.any(-1, keepdim=True)
            chosen = mask | ~alive
        if log_prior is not None:
            added = log_prior if chosen is None else log_prior.masked_fill(~chosen, -torch.inf)
            chosen = added.to(queries.dtype)
        updates = self.settling.fixed or 0
        for step in range(updates + 1):
            is_last = step == updates
            scaled = queries if self.scaling.is_number else self.scaling(queries)
            asked, stored, read = _alike(scaled, modulated.to(scaled.dtype), values if is_last else patterns)
            queries = scaled_dot_product_attention(
                asked,
                stored,
                read,
                attn_mask=chosen,
                dropout_p=self.dropout if self.training and is_last else 0.0,
                scale=self.separation.beta * self.scaling.number,
            )
            queries = queries if alive is None else queries.masked_fill(~alive, 0)
        return queries

    def _settle(
        self, queries: Tensor, patterns: Tensor, mask: Tensor | None, log_prior: Tensor | None, joint: bool = False
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Weights, the states that they are of, and how often these were moved. At least in single precision."""
        mask, log_prior = without_never(mask, log_prior)
        with _without_autocast(queries):
            states, patterns = _alike(*_in_full(queries, patterns))
            modulated = self.modulation(patterns)

            def weigh(states: Tensor) -> Tensor:
                scores = self._raw_scores(states, modulated)
                scores = saturate(scores.sum(-3, keepdim=True)) if joint else scores
                weights = self.separation(self._adjust(scores, mask, log_prior))
                return weights if mask is None else weights.masked_fill(~mask, 0)

            def move(weights: Tensor) -> tuple[Tensor, Tensor]:
                moved = weights @ patterns
                return moved, weigh(moved)

            weights = weigh(states)
            steps = torch.zeros(weights.shape[:-1], dtype=torch.long, device=weights.device)
            if self.settling.most != 0:
                states, weights, steps = self.settling(states, weights, move)
            return weights, states, steps

    def _raw_scores(self, queries: Queries, modulated: Patterns) -> Scores:
        parts = self._similarities()
        if len(parts) == 1:
            scores = parts[0](modulated, queries)
        else:
            if queries.ndim < 3 or queries.shape[-3] != len(parts):
                raise ShapeError(
                    f"There are {len(parts)} similarities, one for each head, so the third axis from behind must have "
                    f"as many; got queries of shape {tuple(queries.shape)}."
                )
            heads = zip(parts, modulated.unbind(-3), queries.unbind(-3), strict=True)
            scores = torch.stack([part(*data) for part, *data in heads], dim=-3)
        if self.scaling.is_number and self.scaling.number == 1:
            return scores
        # A pair that nothing is known about is that at any scale.
        unknown = scores == lowest(scores.dtype)
        return saturate(self.scaling(scores)).masked_fill(unknown, lowest(scores.dtype))

    def _adjust(self, scores: Scores, mask: Tensor | None, log_prior: Tensor | None) -> Scores:
        """Scores with what is known beforehand."""
        if log_prior is not None:
            # The separation sharpens scores, and must not sharpen the prior.
            scores = scores + log_prior.to(scores.dtype) / self.separation.beta
        return scores if mask is None else scores.masked_fill(~mask, lowest(scores.dtype))

    def _energies(self, states: Queries, scores: Scores) -> PerQuery:
        of_dots = all(isinstance(part, DotSimilarity) for part in self._similarities())
        confinement = (QuadraticEnergy() if of_dots else FreeEnergy()).confinement(states, self.modulation)
        scaled = self.scaling(confinement.unsqueeze(-1)).squeeze(-1)
        return scaled - self.separation.potential(scores)

    def _read(self, weights: Weights, values: Tensor) -> Tensor:
        return dropout(weights, self.dropout, self.training).to(values.dtype) @ values

    def _is_fused(self) -> bool:
        of_dots = all(isinstance(part, DotSimilarity) for part in self.similarities)
        is_plain = isinstance(self.separation, Softmax) and not self.separation.floor
        return of_dots and is_plain and self.settling.fixed is not None

    def _similarities(self) -> list[Similarity]:
        return [part for part in self.similarities if isinstance(part, Similarity)]


def _in_full(*tensors: Tensor) -> list[Tensor]:
    """At least single precision: what is compared in half of it has too few digits, and no kernels."""
    dtype = torch.promote_types(tensors[0].dtype, tensors[1].dtype)
    return [each.to(torch.float32 if dtype in HALVES else dtype) for each in tensors]


def _alike(*tensors: Tensor) -> list[Tensor]:
    """All with the same leading axes."""
    shapes = [each.shape[:-2] for each in tensors]
    if all(shape == shapes[0] for shape in shapes):
        return list(tensors)
    leading = torch.broadcast_shapes(*shapes)  # type: ignore[no-untyped-call]
    return [each.expand(*leading, *each.shape[-2:]) for each in tensors]


def _without_autocast(like: Tensor) -> AbstractContextManager[object]:
    kind = like.device.type
    return torch.autocast(kind, enabled=False) if torch.is_autocast_enabled(kind) else nullcontext()
