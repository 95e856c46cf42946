"""Base of the layers that own patterns: each has a `Hopfield`, and hands it its own rows with the data."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Generic, TypedDict, TypeVar

from torch import Tensor
from typing_extensions import override

from ahop.modulations.base import Modulation
from ahop.nn.compat._facts import Facts
from ahop.nn.compat._hopfield import Hopfield, Inputs
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

    hopfield: Hopfield
    _quantity: int

    @abstractmethod
    def _prepare(self, data: Data) -> list[Tensor]:
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
