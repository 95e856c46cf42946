"""The Hopfield layer: projections into heads, an association, an output projection."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TypedDict, final

import torch
from torch import Tensor, nn

from ahop._core.checks import check_count
from ahop.errors import ShapeError
from ahop.modulations.base import Modulation
from ahop.nn.association import Associated, Association
from ahop.nn.base import Layer
from ahop.nn.by_name import modulation_of, separation_of, similarities_of
from ahop.nn.masks import mask_of, with_heads, without_never
from ahop.separations.base import Separation
from ahop.similarities.base import Similarity


class Options(TypedDict, total=False):
    """Options of every Hopfield layer beside the size of its input; see `Hopfield`."""

    num_heads: int
    head_size: int | None
    stored_size: int | None
    value_size: int | None
    output_size: int | None
    similarity: str | Similarity | Sequence[Similarity]
    separation: str | Separation
    modulation: str | Modulation | None
    scaling: float | Sequence[float] | Tensor | None
    learn_scaling: bool
    updates: int | None
    tolerance: float | None
    normalize: bool
    bias: bool
    dropout: float


@final
class Hopfield(Layer):
    r"""$Y = W_o\,[\mathrm{sep}(c \cdot \mathrm{sim}(W_k \Xi, W_q X))\,W_v V]_{\text{heads}}$.

    It starts as a memory: $W_q$ and $W_k$ are the same orthogonal matrix, $W_o$ is the transpose of $W_v$, so that an
    untrained layer answers with the stored pattern that a query comes from, where the sizes allow it.

    Args:
        input_size: of queries; of patterns, values and the output too, unless said otherwise.
        head_size: of the space in which a head compares; default `input_size / num_heads`, rounded up.
        stored_size: of the patterns.
        value_size: of the values; default that of the patterns.
        output_size: of the output; default `input_size`.
        similarity: "dot", "euclidean", "manhattan", "adaptive" (one for each head), an object for all heads, or a list.
        separation: "softmax", "sparsemax", "entmax", "argmax", or an object.
        modulation: None, "kernel", or an object.
        scaling: default $1 / \sqrt{\text{head\_size}}$; see `Association` for this and `learn_scaling`, `updates`,
            `tolerance` and `dropout`.
        normalize: whether queries and patterns pass a LayerNorm before they are compared; values never do.
        bias: of the projections.

    Example:
        >>> layer = Hopfield(64, num_heads=4, similarity="adaptive")
        >>> layer(torch.rand(2, 5, 64), torch.rand(2, 9, 64)).shape
        torch.Size([2, 5, 64])
    """

    def __init__(
        self,
        input_size: int,
        num_heads: int = 1,
        *,
        head_size: int | None = None,
        stored_size: int | None = None,
        value_size: int | None = None,
        output_size: int | None = None,
        similarity: str | Similarity | Sequence[Similarity] = "dot",
        separation: str | Separation = "softmax",
        modulation: str | Modulation | None = None,
        scaling: float | Sequence[float] | Tensor | None = None,
        learn_scaling: bool = False,
        updates: int | None = 0,
        tolerance: float | None = None,
        normalize: bool = True,
        bias: bool = True,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.input_size, self.num_heads = check_count("input_size", input_size), check_count("num_heads", num_heads)
        self.head_size = _size("head_size", head_size, -(-input_size // num_heads))
        self.stored_size = _size("stored_size", stored_size, input_size)
        self.value_size = _size("value_size", value_size, self.stored_size)
        self.output_size = _size("output_size", output_size, input_size)
        self.association = Association(
            similarities_of(similarity, num_heads, self.head_size),
            separation_of(separation),
            modulation_of(modulation, self.head_size),
            scaling=self.head_size**-0.5 if scaling is None else scaling,
            learn_scaling=learn_scaling,
            updates=updates,
            tolerance=tolerance,
            dropout=dropout,
        )
        width = num_heads * self.head_size
        self.query_norm = nn.LayerNorm(input_size) if normalize else None
        self.pattern_norm = nn.LayerNorm(self.stored_size) if normalize else None
        self.query_projection = nn.Linear(input_size, width, bias)
        self.pattern_projection = nn.Linear(self.stored_size, width, bias)
        self.value_projection = nn.Linear(self.value_size, width, bias)
        self.output_projection = nn.Linear(width, self.output_size, bias)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        for norm in (self.query_norm, self.pattern_norm):
            if norm is not None:
                norm.reset_parameters()
        query, pattern, value, output = self._projections()
        for projection in self._projections():
            _orthogonal_(projection.weight)
            if projection.bias is not None:
                nn.init.zeros_(projection.bias)
        with torch.no_grad():
            if self.stored_size == self.input_size:
                pattern.weight.copy_(query.weight)
            if self.output_size == self.value_size:
                output.weight.copy_(value.weight.mT)

    def configuration(self) -> dict[str, object]:
        of_association = self.association.configuration()
        return {
            "input_size": self.input_size,
            "num_heads": self.num_heads,
            "head_size": self.head_size,
            "stored_size": self.stored_size,
            "value_size": self.value_size,
            "output_size": self.output_size,
            **of_association,
            "normalize": self.query_norm is not None,
            "bias": self.query_projection.bias is not None,
        }

    def forward(
        self,
        queries: Tensor,
        patterns: Tensor | None = None,
        values: Tensor | None = None,
        *,
        present: Tensor | None = None,
        allowed: Tensor | None = None,
        log_prior: Tensor | None = None,
    ) -> Tensor:
        """The answers (batch, b, output_size). Without the axis `batch` in the queries, the output has none, either.

        Args:
            queries: (batch, b, input_size), or (b, input_size) for a single sample.
            patterns: (batch, n, stored_size), or (n, stored_size) stored for all samples; default the queries.
            values: what is read in the place of the patterns, one for each of them.
            present: (batch, n) or (n,), True where a stored pattern is there: False for padding.
            allowed: (b, n), (batch, b, n) or (batch, heads, b, n), True where a query may see a pattern.
            log_prior: as `allowed`, numbers added to the scaled scores; minus infinity for never.
        """
        patterns = queries if patterns is None else patterns
        heads, mask, prior, shape = self._compared(queries, patterns, present, allowed, log_prior)
        retrieved = self.association.attend(*heads, self._read(patterns, values), mask, prior)
        return self._join(retrieved, mask).view(*shape, self.output_size)

    def associate(
        self,
        queries: Tensor,
        patterns: Tensor | None = None,
        values: Tensor | None = None,
        *,
        present: Tensor | None = None,
        allowed: Tensor | None = None,
        log_prior: Tensor | None = None,
    ) -> Associated:
        """Everything on the way to the answer: weights (batch, heads, b, n), energies, projected patterns and values.

        The axis `batch` is there in all of them, of length one for what all samples share.

        `retrieved` is the answer itself, as `forward` gives it.
        """
        patterns = queries if patterns is None else patterns
        heads, mask, prior, shape = self._compared(queries, patterns, present, allowed, log_prior)
        found = self.association.associate(*heads, self._read(patterns, values), mask, prior)
        found = replace(found, retrieved=self._join(found.retrieved, mask).view(*shape, self.output_size))
        if patterns.ndim == 3 or queries.ndim == 2:
            return found
        by_query = ("weights", "energies", "states", "updates")
        return replace(found, **{name: _as_batch(getattr(found, name), shape) for name in by_query})

    def retrieve(
        self,
        queries: Tensor,
        patterns: Tensor,
        *,
        present: Tensor | None = None,
        allowed: Tensor | None = None,
        log_prior: Tensor | None = None,
    ) -> Tensor:
        """The stored patterns that the queries stand for, as they were given: (batch, b, stored_size).

        All heads decide together: their scores are added up. Masks and priors must not differ between heads.
        """
        heads, mask, prior, shape = self._compared(queries, patterns, present, allowed, log_prior)
        weights = self.association.weights(*heads, mask, prior, joint=True).squeeze(-3)
        stored = patterns if patterns.ndim == 3 else patterns.unsqueeze(0)
        return (weights @ stored).view(*shape, self.stored_size)

    def _compared(
        self,
        queries: Tensor,
        patterns: Tensor,
        present: Tensor | None,
        allowed: Tensor | None,
        log_prior: Tensor | None,
    ) -> tuple[tuple[Tensor, Tensor], Tensor | None, Tensor | None, Sequence[int]]:
        """Heads of both, mask and prior over (batch, heads, b, n), and the answers' shape but for its end."""
        _check("queries", queries, self.input_size)
        _check("patterns", patterns, self.stored_size)
        mask, prior = without_never(mask_of(present, allowed), None if log_prior is None else with_heads(log_prior))
        shape: Sequence[int] = queries.shape[:-1]
        if patterns.ndim == 3 and queries.ndim == 2:
            shape = (patterns.shape[0], queries.shape[0])
        if patterns.ndim == 2 and queries.ndim == 3:
            # One memory for all samples: their queries are asked as one long row, and nothing is stored twice.
            mask, prior = (_as_one_row(each, *queries.shape[:2]) for each in (mask, prior))
            queries = queries.flatten(0, 1)
        asked, stored = _add_batch(queries), _add_batch(patterns)
        asked = asked if self.query_norm is None else self.query_norm(asked)
        stored = stored if self.pattern_norm is None else self.pattern_norm(stored)
        heads = self._split(self.query_projection(asked)), self._split(self.pattern_projection(stored))
        return heads, mask, prior, shape

    def _read(self, patterns: Tensor, values: Tensor | None) -> Tensor:
        """Heads of what is read."""
        values = patterns if values is None else values
        _check("values", values, self.value_size)
        if patterns.shape[:-1] != values.shape[:-1]:
            raise ShapeError(
                f"`values` must be one for each pattern, shape {(*patterns.shape[:-1], self.value_size)}; "
                f"got shape {tuple(values.shape)}."
            )
        return self._split(self.value_projection(_add_batch(values)))

    def _split(self, projected: Tensor) -> Tensor:
        return projected.view(*projected.shape[:-1], self.num_heads, self.head_size).transpose(-3, -2)

    def _join(self, retrieved: Tensor, mask: Tensor | None) -> Tensor:
        """All heads as one answer; zero, without the bias, for a query that no head found anything for."""
        joined: Tensor = self.output_projection(retrieved.transpose(-3, -2).flatten(-2))
        return joined if mask is None else joined.masked_fill(~mask.any(-1).any(1).unsqueeze(-1), 0)

    def _projections(self) -> tuple[nn.Linear, nn.Linear, nn.Linear, nn.Linear]:
        return self.query_projection, self.pattern_projection, self.value_projection, self.output_projection


def _check(name: str, given: Tensor, size: int) -> None:
    if given.ndim not in (2, 3) or given.shape[-1] != size:
        raise ShapeError(
            f"`{name}` must have shape (batch, rows, {size}) or (rows, {size}); got shape {tuple(given.shape)}."
        )


def _add_batch(rows: Tensor) -> Tensor:
    return rows if rows.ndim == 3 else rows.unsqueeze(0)


def _size(name: str, given: int | None, default: int) -> int:
    return default if given is None else check_count(name, given)


def _orthogonal_(weight: Tensor) -> None:
    if weight.device.type != "meta":
        nn.init.orthogonal_(weight)


def _as_batch(found: Tensor, shape: Sequence[int]) -> Tensor:
    """(1, heads, batch * b, ...) as (batch, heads, b, ...)."""
    return found.reshape(found.shape[1], *shape, *found.shape[3:]).transpose(0, 1)


def _as_one_row(pairs: Tensor | None, batch: int, queries: int) -> Tensor | None:
    """(batch, heads, b, n) as (1, heads, batch * b, n)."""
    if pairs is None:
        return None
    whole = pairs.expand(batch, -1, queries, -1)
    return whole.transpose(0, 1).flatten(1, 2).unsqueeze(0)
