"""`HopfieldPooling` of hopfield-layers."""

from typing import final

import torch
from torch import Tensor, nn
from typing_extensions import Unpack, override

from ahop._core.checks import check_count
from ahop.errors import InvalidTypeError
from ahop.nn.compat._core import STD
from ahop.nn.compat._hopfield import Hopfield, Inputs, Numbers
from ahop.nn.compat._owning import Owning, Settings, expanded


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
        super().__init__()
        self.hopfield = Hopfield(
            input_size,
            hidden_size,
            output_size,
            pattern_size,
            num_heads,
            scaling,
            update_steps_max,
            update_steps_eps,
            **settings,
        )
        self._quantity = check_count("quantity", quantity)
        size = self.hopfield.hidden_size if self.state_pattern_as_static else self.hopfield.input_size
        shape = (1, quantity) if self.batch_first else (quantity, 1)
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
        answers: Tensor = self.hopfield(self._prepare(input), stored_pattern_padding_mask, association_mask)
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
