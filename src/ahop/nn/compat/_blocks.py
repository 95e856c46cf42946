"""The blocks of a transformer in hopfield-layers: the norm comes last."""

from collections.abc import Callable
from copy import deepcopy
from typing import final

from torch import Tensor, nn

from ahop.errors import InvalidValueError
from ahop.nn.compat._hopfield import Hopfield, Inputs, activation_of


class _Block(nn.Module):
    """Last part of both blocks: a hidden layer with a residual connection, then a norm."""

    def __init__(self, size: int, dim_feedforward: int, dropout: float, activation: str) -> None:
        super().__init__()
        self.linear_residual = nn.Linear(size, dim_feedforward)
        self.linear_output = nn.Linear(dim_feedforward, size)
        self.norm_output = nn.LayerNorm(size)
        self.dropout_residual, self.dropout_output = nn.Dropout(dropout), nn.Dropout(dropout)
        self.activation_residual: Callable[[Tensor], Tensor] = activation_of("activation", activation)

    def reset_parameters(self) -> None:
        for module in self.children():
            if isinstance(module, (Hopfield, nn.Linear, nn.LayerNorm)):
                module.reset_parameters()

    @property
    def output_size(self) -> int:
        return self.linear_output.out_features

    def _through_hidden(self, states: Tensor) -> Tensor:
        hidden = self.dropout_residual(self.activation_residual(self.linear_residual(states)))
        answers: Tensor = self.norm_output(states + self.dropout_output(self.linear_output(hidden)))
        return answers


@final
class HopfieldEncoderLayer(_Block):
    """Association, then a hidden layer; each is added to what came in, the sum normalized. It keeps a copy."""

    def __init__(
        self,
        hopfield_association: Hopfield,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: str = "relu",
    ) -> None:
        size = _size_of(hopfield_association)
        super().__init__(size, dim_feedforward, dropout, activation)
        self.hopfield_association = deepcopy(hopfield_association)
        self.norm_residual = nn.LayerNorm(size)
        self.dropout_hopfield_association = nn.Dropout(dropout)
        self.reset_parameters()

    def forward(
        self, src: Tensor, src_mask: Tensor | None = None, src_key_padding_mask: Tensor | None = None
    ) -> Tensor:
        found = self.hopfield_association(src, src_key_padding_mask, src_mask)
        states = self.norm_residual(src + self.dropout_hopfield_association(found))
        return self._through_hidden(states)

    def get_association_matrix(self, input: Inputs) -> Tensor:  # noqa: A002
        return self.hopfield_association.get_association_matrix(input)

    @property
    def batch_first(self) -> bool:
        return self.hopfield_association.batch_first

    @property
    def input_size(self) -> int | None:
        return self.hopfield_association.input_size


@final
class HopfieldDecoderLayer(_Block):
    """Encoder layer with an association across, to `memory`, between the two. Both associations are copied."""

    def __init__(
        self,
        hopfield_association_self: Hopfield,
        hopfield_association_cross: Hopfield,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: str = "relu",
    ) -> None:
        size = _size_of(hopfield_association_self)
        super().__init__(size, dim_feedforward, dropout, activation)
        self.hopfield_association_self = deepcopy(hopfield_association_self)
        self.hopfield_association_cross = deepcopy(hopfield_association_cross)
        self.norm_residual_self, self.norm_residual_cross = nn.LayerNorm(size), nn.LayerNorm(size)
        self.dropout_hopfield_association_self = nn.Dropout(dropout)
        self.dropout_hopfield_association_cross = nn.Dropout(dropout)
        self.reset_parameters()

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
    ) -> Tensor:
        found = self.hopfield_association_self(tgt, tgt_key_padding_mask, tgt_mask)
        states = self.norm_residual_self(tgt + self.dropout_hopfield_association_self(found))
        found = self.hopfield_association_cross((memory, states, memory), memory_key_padding_mask, memory_mask)
        states = self.norm_residual_cross(states + self.dropout_hopfield_association_cross(found))
        return self._through_hidden(states)

    def get_association_matrix_self(self, input: Inputs) -> Tensor:  # noqa: A002
        return self.hopfield_association_self.get_association_matrix(input)

    def get_association_matrix_cross(self, input: Inputs) -> Tensor:  # noqa: A002
        return self.hopfield_association_cross.get_association_matrix(input)

    @property
    def batch_first(self) -> bool:
        return self.hopfield_association_self.batch_first

    @property
    def input_size(self) -> int | None:
        return self.hopfield_association_self.input_size


def _size_of(association: Hopfield) -> int:
    if association.state_pattern_dim is None:
        raise InvalidValueError("The association of a block needs an `input_size`; got one without projections.")
    return association.state_pattern_dim
