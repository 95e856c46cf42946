"""The layers that own patterns: each has a `Hopfield`, and hands it its own rows with the data."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Generic, TypedDict, TypeVar, final

import torch
from torch import Tensor, nn
from typing_extensions import Unpack, override

from ahop._core.checks import check_count
from ahop.errors import InvalidTypeError
from ahop.modulations.base import Modulation
from ahop.nn.compat._core import STD
from ahop.nn.compat._facts import Facts
from ahop.nn.compat._hopfield import Hopfield, Inputs, Numbers
from ahop.separations.base import Separation
from ahop.similarities.base import Similarity

Data = TypeVar("Data", bound=Inputs)


class Settings(TypedDict, total=False):
    """Arguments that such a layer passes on to its `Hopfield`."""

    normalize_stored_pattern: bool
    normalize_stored_pattern_affine: bool
    normalize_state_pattern: bool
    normalize_state_pattern_affine: bool
    normalize_pattern_projection: bool
    normalize_pattern_projection_affine: bool
    normalize_hopfield_space: bool
    normalize_hopfield_space_affine: bool
    stored_pattern_as_static: bool
    state_pattern_as_static: bool
    pattern_projection_as_static: bool
    pattern_projection_as_connected: bool
    stored_pattern_size: int | None
    pattern_projection_size: int | None
    batch_first: bool
    association_activation: str | None
    dropout: float
    input_bias: bool
    concat_bias_pattern: bool
    add_zero_association: bool
    disable_out_projection: bool
    similarity: str | Similarity | Sequence[Similarity]
    separation: str | Separation
    modulation: str | Modulation | None


class Owning(Facts, Generic[Data]):
    """A `Hopfield` inside, to which `_prepare` brings what the layer has learned."""

    def __init__(self, hopfield: Hopfield, quantity: int) -> None:
        super().__init__()
        self.hopfield, self._quantity = hopfield, check_count("quantity", quantity)

    def _table(self, size: int, trainable: bool) -> nn.Parameter:
        """The rows that the layer owns, to be filled by `reset_parameters`."""
        shape = (1, self.quantity) if self.batch_first else (self.quantity, 1)
        return nn.Parameter(torch.empty(*shape, size), requires_grad=trainable)

    @abstractmethod
    def _prepare(self, data: Data) -> list[Tensor]:
        """Stored pattern, state pattern and pattern projection."""

    def forward(
        self,
        input: Data,  # noqa: A002
        stored_pattern_padding_mask: Tensor | None = None,
        association_mask: Tensor | None = None,
    ) -> Tensor:
        answers: Tensor = self.hopfield(self._prepare(input), stored_pattern_padding_mask, association_mask)
        return answers

    @property
    @override
    def _source(self) -> Facts:
        return self.hopfield

    @property
    def quantity(self) -> int:
        return self._quantity

    def get_association_matrix(
        self,
        input: Data,  # noqa: A002
        stored_pattern_padding_mask: Tensor | None = None,
        association_mask: Tensor | None = None,
    ) -> Tensor:
        """(batch, heads, state patterns, stored patterns)."""
        return self.hopfield.get_association_matrix(self._prepare(input), stored_pattern_padding_mask, association_mask)

    def get_projected_pattern_matrix(
        self,
        input: Data,  # noqa: A002
        stored_pattern_padding_mask: Tensor | None = None,
        association_mask: Tensor | None = None,
    ) -> Tensor:
        """(batch, heads, stored patterns, pattern size)."""
        return self.hopfield.get_projected_pattern_matrix(
            self._prepare(input), stored_pattern_padding_mask, association_mask
        )


def expanded(table: Tensor, like: Tensor, batch_first: bool) -> Tensor:
    """The rows that a layer owns, for each sample of the data."""
    if like.ndim == 2:
        return table.flatten(0, 1)
    return table.expand(like.shape[0], -1, -1) if batch_first else table.expand(-1, like.shape[1], -1)


@final
class HopfieldLayer(Owning[Tensor]):
    """State patterns are looked up among stored ones that the layer has learned.

    Args:
        lookup_weights_as_separated: whether what is read is a table of its own.
        lookup_targets_as_trainable: whether that table is learned.
        quantity: how many stored patterns.
        trainable: whether they are learned.
        settings: all others of `Hopfield`, by name.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int | None = None,
        output_size: int | None = None,
        pattern_size: int | None = None,
        num_heads: int = 1,
        scaling: Numbers = None,
        update_steps_max: Numbers = 0,
        update_steps_eps: Numbers = 1e-4,
        lookup_weights_as_separated: bool = False,
        lookup_targets_as_trainable: bool = True,
        *,
        quantity: int = 1,
        trainable: bool = True,
        **settings: Unpack[Settings],
    ) -> None:
        sizes = input_size, hidden_size, output_size, pattern_size, num_heads
        super().__init__(Hopfield(*sizes, scaling, update_steps_max, update_steps_eps, **settings), quantity)
        size = self.hopfield.hidden_size if self.stored_pattern_as_static else self.hopfield.stored_pattern_dim
        self.lookup_weights = self._table(size or input_size, trainable)
        read = settings.get("pattern_projection_size") or self.lookup_weights.shape[2]
        self.target_weights = self._table(read, lookup_targets_as_trainable) if lookup_weights_as_separated else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        self.hopfield.reset_parameters()
        for table in (self.lookup_weights, self.target_weights):
            if table is not None:
                nn.init.normal_(table, std=STD)

    @override
    def _prepare(self, data: Tensor) -> list[Tensor]:
        stored = expanded(self.lookup_weights, data, self.batch_first)
        if self.target_weights is None:
            return [stored, data, stored]
        return [stored, data, expanded(self.target_weights, data, self.batch_first)]


@final
class HopfieldPooling(Owning[Inputs]):
    """Learned state patterns look into the stored ones: a bag of them to one vector.

    Called with one tensor for stored pattern and projection, or with both.

    Args:
        quantity: how many state patterns; the answers are laid side by side.
        trainable: whether they are learned.
        settings: all others of `Hopfield`, by name.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int | None = None,
        output_size: int | None = None,
        pattern_size: int | None = None,
        num_heads: int = 1,
        scaling: Numbers = None,
        update_steps_max: Numbers = 0,
        update_steps_eps: Numbers = 1e-4,
        *,
        quantity: int = 1,
        trainable: bool = True,
        **settings: Unpack[Settings],
    ) -> None:
        sizes = input_size, hidden_size, output_size, pattern_size, num_heads
        super().__init__(Hopfield(*sizes, scaling, update_steps_max, update_steps_eps, **settings), quantity)
        size = self.hopfield.hidden_size if self.state_pattern_as_static else self.hopfield.input_size
        self.pooling_weights = self._table(size or input_size, trainable)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        self.hopfield.reset_parameters()
        nn.init.normal_(self.pooling_weights, std=STD)

    @override
    def forward(
        self,
        input: Inputs,
        stored_pattern_padding_mask: Tensor | None = None,
        association_mask: Tensor | None = None,
    ) -> Tensor:
        """(batch, quantity * output size), in both layouts."""
        answers = super().forward(input, stored_pattern_padding_mask, association_mask)
        if answers.ndim == 3 and not self.batch_first:
            answers = answers.transpose(0, 1)
        return answers.flatten(-2)

    @override
    def _prepare(self, data: Inputs) -> list[Tensor]:
        given = [data] * 2 if isinstance(data, Tensor) else list(data)
        if len(given) != 2:
            raise InvalidTypeError(
                f"`input` must be one tensor, or two: stored pattern, pattern projection; got {len(given)}."
            )
        return [given[0], expanded(self.pooling_weights, given[0], self.batch_first), given[1]]
