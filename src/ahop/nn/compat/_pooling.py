"""`HopfieldPooling` of hopfield-layers."""

from collections.abc import Sequence
from typing import final

import torch
from torch import Tensor, nn
from typing_extensions import override

from ahop._core.checks import check_count
from ahop.errors import InvalidTypeError
from ahop.modulations.base import Modulation
from ahop.nn.compat._core import STD
from ahop.nn.compat._hopfield import Hopfield, Inputs, Numbers
from ahop.nn.compat._owning import Owning, expanded
from ahop.separations.base import Separation
from ahop.similarities.base import Similarity


@final
class HopfieldPooling(Owning[Inputs]):
    """Learned state patterns look into the stored ones: a bag of them to one vector.

    Called with one tensor for stored pattern and projection, or with both.

    Args:
        quantity: how many state patterns; the answers are laid side by side.
        trainable: whether they are learned.
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
        normalize_stored_pattern: bool = True,
        normalize_stored_pattern_affine: bool = True,
        normalize_state_pattern: bool = True,
        normalize_state_pattern_affine: bool = True,
        normalize_pattern_projection: bool = True,
        normalize_pattern_projection_affine: bool = True,
        normalize_hopfield_space: bool = False,
        normalize_hopfield_space_affine: bool = False,
        stored_pattern_as_static: bool = False,
        state_pattern_as_static: bool = False,
        pattern_projection_as_static: bool = False,
        pattern_projection_as_connected: bool = False,
        stored_pattern_size: int | None = None,
        pattern_projection_size: int | None = None,
        batch_first: bool = True,
        association_activation: str | None = None,
        dropout: float = 0.0,
        input_bias: bool = True,
        concat_bias_pattern: bool = False,
        add_zero_association: bool = False,
        disable_out_projection: bool = False,
        quantity: int = 1,
        trainable: bool = True,
        *,
        similarity: str | Similarity | Sequence[Similarity] = "dot",
        separation: str | Separation = "softmax",
        modulation: str | Modulation | None = None,
    ) -> None:
        super().__init__()
        self.hopfield = Hopfield(
            input_size=input_size,
            hidden_size=hidden_size,
            output_size=output_size,
            pattern_size=pattern_size,
            num_heads=num_heads,
            scaling=scaling,
            update_steps_max=update_steps_max,
            update_steps_eps=update_steps_eps,
            normalize_stored_pattern=normalize_stored_pattern,
            normalize_stored_pattern_affine=normalize_stored_pattern_affine,
            normalize_state_pattern=normalize_state_pattern,
            normalize_state_pattern_affine=normalize_state_pattern_affine,
            normalize_pattern_projection=normalize_pattern_projection,
            normalize_pattern_projection_affine=normalize_pattern_projection_affine,
            normalize_hopfield_space=normalize_hopfield_space,
            normalize_hopfield_space_affine=normalize_hopfield_space_affine,
            stored_pattern_as_static=stored_pattern_as_static,
            state_pattern_as_static=state_pattern_as_static,
            pattern_projection_as_static=pattern_projection_as_static,
            pattern_projection_as_connected=pattern_projection_as_connected,
            stored_pattern_size=stored_pattern_size,
            pattern_projection_size=pattern_projection_size,
            batch_first=batch_first,
            association_activation=association_activation,
            dropout=dropout,
            input_bias=input_bias,
            concat_bias_pattern=concat_bias_pattern,
            add_zero_association=add_zero_association,
            disable_out_projection=disable_out_projection,
            similarity=similarity,
            separation=separation,
            modulation=modulation,
        )
        self._quantity = check_count("quantity", quantity)
        size = self.hopfield.hidden_size if state_pattern_as_static else self.hopfield.input_size
        shape = (1, quantity) if batch_first else (quantity, 1)
        self.pooling_weights = nn.Parameter(torch.empty(*shape, size or input_size), requires_grad=trainable)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        self.hopfield.reset_parameters()
        nn.init.normal_(self.pooling_weights, std=STD)

    def forward(
        self,
        input: Inputs,  # noqa: A002
        stored_pattern_padding_mask: Tensor | None = None,
        association_mask: Tensor | None = None,
    ) -> Tensor:
        """(batch, quantity * output size), in both layouts."""
        answers: Tensor = self.hopfield(self._prepared(input), stored_pattern_padding_mask, association_mask)
        if answers.ndim == 3 and not self.batch_first:
            answers = answers.transpose(0, 1)
        return answers.flatten(-2)

    @override
    def _prepared(self, data: Inputs) -> list[Tensor]:
        given = [data] * 2 if isinstance(data, Tensor) else list(data)
        if len(given) != 2:
            raise InvalidTypeError(
                f"`input` must be one tensor, or two: stored pattern, pattern projection; got {len(given)}."
            )
        return [given[0], expanded(self.pooling_weights, given[0], self.batch_first), given[1]]
