"""A layer with stored patterns of its own."""

from typing import Any, final

from torch import Tensor
from typing_extensions import Unpack

from ahop._core.inputs import as_patterns
from ahop._core.typing import Array
from ahop.errors import ShapeError
from ahop.nn.association import Associated
from ahop.nn.base import Layer
from ahop.nn.hopfield import Hopfield, Options
from ahop.nn.prototypes import Prototypes


@final
class HopfieldLayer(Layer):
    r"""$Y = \mathrm{Hopfield}(X, \Xi, V)$ with patterns $\Xi$ that the layer owns: a look-up among prototypes.

    Args:
        input_size: of the queries.
        quantity: how many patterns are stored.
        trainable: whether they are learned.
        **options: those of `Hopfield`. With `value_size`, the values are a learned table of their own; without, the
            patterns themselves.

    Example:
        >>> HopfieldLayer(16, quantity=100, output_size=3)(torch.rand(4, 16)).shape
        torch.Size([4, 3])
    """

    def __init__(self, input_size: int, quantity: int, *, trainable: bool = True, **options: Unpack[Options]) -> None:
        super().__init__()
        self.hopfield = Hopfield(input_size, **options)
        self.patterns = Prototypes(quantity, self.hopfield.stored_size, trainable)
        separate = options.get("value_size") is not None
        self.values = Prototypes(quantity, self.hopfield.value_size, trainable) if separate else None

    @classmethod
    def of(
        cls, patterns: Array, values: Array | None = None, *, trainable: bool = False, **options: Unpack[Options]
    ) -> "HopfieldLayer":
        """A layer that stores these patterns (n, stored_size), and these values, one for each; fixed unless told."""
        stored = as_patterns(patterns)
        made: dict[str, Any] = {"stored_size": stored.shape[1], **options}
        read = None if values is None else as_patterns(values, "values")
        if read is not None:
            if len(read) != len(stored):
                raise ShapeError(f"`values` must be {len(stored)}, one for each pattern; got {len(read)}.")
            made["value_size"] = read.shape[1]
        layer = cls(made.pop("input_size", stored.shape[1]), len(stored), trainable=trainable, **made)
        layer.patterns = Prototypes.of(stored, trainable)
        layer.values = None if read is None else Prototypes.of(read, trainable)
        return layer

    def reset_parameters(self) -> None:
        self.hopfield.reset_parameters()
        for table in (self.patterns, self.values):
            if table is not None:
                table.reset_parameters()

    def configuration(self) -> dict[str, object]:
        value_size = None if self.values is None else self.values.size
        chosen = {"quantity": self.patterns.count, "trainable": self.patterns.trainable, "value_size": value_size}
        return self.hopfield.configuration() | chosen

    def forward(
        self,
        queries: Tensor,
        *,
        present: Tensor | None = None,
        allowed: Tensor | None = None,
        log_prior: Tensor | None = None,
    ) -> Tensor:
        """(batch, b, output_size) from (batch, b, input_size); both may lack `batch`."""
        patterns, values = self._stored()
        return self.hopfield(queries, patterns, values, present=present, allowed=allowed, log_prior=log_prior)

    def retrieve(
        self,
        queries: Tensor,
        *,
        present: Tensor | None = None,
        allowed: Tensor | None = None,
        log_prior: Tensor | None = None,
    ) -> Tensor:
        """The stored patterns themselves that the queries stand for, (batch, b, stored_size)."""
        stored = self.patterns.patterns
        return self.hopfield.retrieve(queries, stored, present=present, allowed=allowed, log_prior=log_prior)

    def associate(
        self,
        queries: Tensor,
        *,
        present: Tensor | None = None,
        allowed: Tensor | None = None,
        log_prior: Tensor | None = None,
    ) -> Associated:
        """Association weights of the patterns (batch, heads, b, quantity), and the rest of `Associated`."""
        patterns, values = self._stored()
        return self.hopfield.associate(queries, patterns, values, present=present, allowed=allowed, log_prior=log_prior)

    def _stored(self) -> tuple[Tensor, Tensor | None]:
        return self.patterns.patterns, None if self.values is None else self.values.patterns
