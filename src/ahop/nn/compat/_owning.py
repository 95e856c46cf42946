"""What the layers that own patterns share: one stands on a `Hopfield`, and hands it its own rows with the data."""

from abc import abstractmethod
from typing import Generic, TypeVar

from torch import Tensor
from typing_extensions import override

from ahop.nn.compat._facts import Facts
from ahop.nn.compat._hopfield import Hopfield, Inputs

Data = TypeVar("Data", bound=Inputs)


class Owning(Facts, Generic[Data]):
    """A `Hopfield` inside, to which `_prepared` brings what the layer has learned."""

    hopfield: Hopfield
    _quantity: int

    @abstractmethod
    def _prepared(self, data: Data) -> list[Tensor]:
        """Stored pattern, state pattern and pattern projection."""

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
        return self.hopfield.get_association_matrix(
            self._prepared(input), stored_pattern_padding_mask, association_mask
        )

    def get_projected_pattern_matrix(
        self,
        input: Data,  # noqa: A002
        stored_pattern_padding_mask: Tensor | None = None,
        association_mask: Tensor | None = None,
    ) -> Tensor:
        """(batch, heads, stored patterns, pattern size)."""
        return self.hopfield.get_projected_pattern_matrix(
            self._prepared(input), stored_pattern_padding_mask, association_mask
        )


def expanded(table: Tensor, like: Tensor, batch_first: bool) -> Tensor:
    """The rows that a layer owns, for each sample of the data."""
    if like.ndim == 2:
        return table.flatten(0, 1)
    return table.expand(like.shape[0], -1, -1) if batch_first else table.expand(-1, like.shape[1], -1)
