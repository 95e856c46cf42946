"""`HopfieldLayer` of hopfield-layers."""

from typing import final

import torch
from torch import Tensor, nn
from typing_extensions import Unpack, override

from ahop._core.checks import check_count
from ahop.nn.compat._core import STD
from ahop.nn.compat._hopfield import Hopfield, Numbers
from ahop.nn.compat._owning import Owning, Settings, expanded


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
        shape = (1, quantity) if self.batch_first else (quantity, 1)
        size = self.hopfield.hidden_size if self.stored_pattern_as_static else self.hopfield.stored_pattern_dim
        self.lookup_weights = nn.Parameter(torch.empty(*shape, size or input_size), requires_grad=trainable)
        read = settings.get("pattern_projection_size") or self.lookup_weights.shape[2]
        self.target_weights = (
            nn.Parameter(torch.empty(*shape, read), requires_grad=lookup_targets_as_trainable)
            if lookup_weights_as_separated
            else None
        )
        self.reset_parameters()

    def reset_parameters(self) -> None:
        self.hopfield.reset_parameters()
        for table in (self.lookup_weights, self.target_weights):
            if table is not None:
                nn.init.normal_(table, std=STD)

    def forward(
        self,
        input: Tensor,  # noqa: A002
        stored_pattern_padding_mask: Tensor | None = None,
        association_mask: Tensor | None = None,
    ) -> Tensor:
        answers: Tensor = self.hopfield(self._prepare(input), stored_pattern_padding_mask, association_mask)
        return answers

    @override
    def _prepare(self, data: Tensor) -> list[Tensor]:
        stored = expanded(self.lookup_weights, data, self.batch_first)
        if self.target_weights is None:
            return [stored, data, stored]
        return [stored, data, expanded(self.target_weights, data, self.batch_first)]
