"""Properties of every layer of hopfield-layers."""

from abc import abstractmethod

from torch import Tensor, nn

from ahop.nn.compat._core import HopfieldCore


class Facts(nn.Module):
    """Read-only properties, all from the core and the norms around it."""

    @property
    @abstractmethod
    def _source(self) -> "Facts":
        """The layer that has these properties: the `Hopfield` inside, or itself."""

    association_core: HopfieldCore
    norm_stored_pattern: nn.LayerNorm | None
    norm_state_pattern: nn.LayerNorm | None
    norm_pattern_projection: nn.LayerNorm | None
    _given: dict[str, Tensor | float | int | None]
    _batch_first: bool

    @property
    def batch_first(self) -> bool:
        return self._source._batch_first

    @property
    def scaling(self) -> Tensor | float | int | None:
        return _own(self._source._given["scaling"])

    @property
    def update_steps_max(self) -> Tensor | float | int | None:
        return _own(self._source._given["update_steps_max"])

    @property
    def update_steps_eps(self) -> Tensor | float | int | None:
        return _own(self._source._given["update_steps_eps"])

    @property
    def stored_pattern_dim(self) -> int | None:
        return self._source.association_core.kdim

    @property
    def state_pattern_dim(self) -> int | None:
        return self._source.association_core.embed_dim

    @property
    def pattern_projection_dim(self) -> int | None:
        return self._source.association_core.vdim

    @property
    def input_size(self) -> int | None:
        return self.state_pattern_dim

    @property
    def hidden_size(self) -> int | None:
        return self._source.association_core.head_dim

    @property
    def output_size(self) -> int | None:
        return self._source.association_core.out_dim

    @property
    def pattern_size(self) -> int | None:
        return self._source.association_core.pattern_dim

    @property
    def stored_pattern_as_static(self) -> bool:
        return self._source.association_core.key_as_static

    @property
    def state_pattern_as_static(self) -> bool:
        return self._source.association_core.query_as_static

    @property
    def pattern_projection_as_static(self) -> bool:
        return self._source.association_core.value_as_static

    @property
    def normalize_stored_pattern(self) -> bool:
        return self._source.norm_stored_pattern is not None

    @property
    def normalize_stored_pattern_affine(self) -> bool:
        return _is_affine(self._source.norm_stored_pattern)

    @property
    def normalize_state_pattern(self) -> bool:
        return self._source.norm_state_pattern is not None

    @property
    def normalize_state_pattern_affine(self) -> bool:
        return _is_affine(self._source.norm_state_pattern)

    @property
    def normalize_pattern_projection(self) -> bool:
        return self._source.norm_pattern_projection is not None

    @property
    def normalize_pattern_projection_affine(self) -> bool:
        return _is_affine(self._source.norm_pattern_projection)

    @property
    def normalize_hopfield_space(self) -> bool:
        return self._source.association_core.normalize_pattern

    @property
    def normalize_hopfield_space_affine(self) -> bool:
        return self._source.association_core.normalize_pattern_affine


def _own(given: Tensor | float | int | None) -> Tensor | float | int | None:
    return given.detach().clone() if isinstance(given, Tensor) else given


def _is_affine(norm: nn.LayerNorm | None) -> bool:
    return norm is not None and norm.elementwise_affine
