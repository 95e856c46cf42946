"""`Hopfield` of hopfield-layers."""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, final

import torch
from torch import Tensor, nn
from typing_extensions import override

from ahop.errors import InvalidTypeError, InvalidValueError
from ahop.modulations.base import Modulation
from ahop.nn.association import Associated, Association
from ahop.nn.by_name import modulation_of, separation_of, similarities_of
from ahop.nn.compat._core import HopfieldCore
from ahop.nn.compat._facts import Facts
from ahop.nn.convergence import Convergence
from ahop.separations.base import Separation
from ahop.similarities.base import Similarity

Inputs: TypeAlias = Tensor | Sequence[Tensor]
Numbers: TypeAlias = Tensor | float | int | None


@final
class Hopfield(Facts):
    """Associates state patterns with stored ones and reads from a projection of the latter.

    Called with one tensor for all three, or with (stored pattern, state pattern, pattern projection). True in a mask
    means "ignore"; an association mask of numbers is added to the scaled scores.

    Args:
        scaling: a number, one for each head, or a parameter, which is learned then.
        update_steps_eps: a sample rests when its associations change by less, whatever the others do.
        similarity: ours, as `separation` and `modulation`: see `ahop.nn.Hopfield`.
    """

    def __init__(
        self,
        input_size: int | None = None,
        hidden_size: int | None = None,
        output_size: int | None = None,
        pattern_size: int | None = None,
        num_heads: int = 1,
        scaling: Numbers = None,
        update_steps_max: Numbers = 0,
        update_steps_eps: Numbers = 1e-4,
        normalize_stored_pattern: bool = True,
        normalize_stored_pattern_affine: bool = True,
        normalize_stored_pattern_eps: float = 1e-5,
        normalize_state_pattern: bool = True,
        normalize_state_pattern_affine: bool = True,
        normalize_state_pattern_eps: float = 1e-5,
        normalize_pattern_projection: bool = True,
        normalize_pattern_projection_affine: bool = True,
        normalize_pattern_projection_eps: float = 1e-5,
        normalize_hopfield_space: bool = False,
        normalize_hopfield_space_affine: bool = False,
        normalize_hopfield_space_eps: float = 1e-5,
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
        *,
        similarity: str | Similarity | Sequence[Similarity] = "dot",
        separation: str | Separation = "softmax",
        modulation: str | Modulation | None = None,
    ) -> None:
        super().__init__()
        self._batch_first = batch_first
        self.association_activation = activation_of("association_activation", association_activation)
        _check_affine("hopfield_space", normalize_hopfield_space, normalize_hopfield_space_affine)

        def make_association(head_size: int | None) -> Association:
            if head_size is None and similarity == "adaptive":
                raise InvalidValueError(
                    "Where nothing is projected the size of patterns is not known: pass "
                    "`similarity=ahop.AdaptiveSimilarity(size)`."
                )
            self._given["scaling"] = (1.0 if head_size is None else head_size**-0.5) if scaling is None else scaling
            size = head_size or 1
            association = Association(
                similarities_of(similarity, num_heads, size)
                if head_size or isinstance(similarity, str)
                else similarity,
                separation_of(separation),
                modulation_of(modulation, size) if head_size else modulation,  # type: ignore[arg-type]
                scaling=_numbers("scaling", self._given["scaling"]),
                learn_scaling=isinstance(scaling, nn.Parameter),
                dropout=dropout,
            )
            if isinstance(scaling, nn.Parameter):
                association.scaling.scale = scaling
            return association

        self._given: dict[str, Numbers] = {"update_steps_max": update_steps_max, "update_steps_eps": update_steps_eps}
        self.association_core = HopfieldCore(
            input_size,
            num_heads,
            stored_pattern_size,
            pattern_projection_size,
            hidden_size,
            pattern_size,
            output_size,
            key_as_static=stored_pattern_as_static,
            query_as_static=state_pattern_as_static,
            value_as_static=pattern_projection_as_static,
            value_as_connected=pattern_projection_as_connected,
            disable_out_projection=disable_out_projection,
            bias=input_bias,
            add_bias_kv=concat_bias_pattern,
            add_zero_attn=add_zero_association,
            normalize_pattern=normalize_hopfield_space,
            normalize_pattern_affine=normalize_hopfield_space_affine,
            normalize_pattern_eps=normalize_hopfield_space_eps,
            make_association=make_association,
            settling=_settling(update_steps_max, update_steps_eps),
        )
        stored = input_size if stored_pattern_size is None else stored_pattern_size
        read = input_size if pattern_projection_size is None else pattern_projection_size
        self.norm_stored_pattern = _norm(
            "stored_pattern",
            stored,
            normalize_stored_pattern,
            normalize_stored_pattern_affine,
            normalize_stored_pattern_eps,
        )
        self.norm_state_pattern = _norm(
            "state_pattern",
            input_size,
            normalize_state_pattern,
            normalize_state_pattern_affine,
            normalize_state_pattern_eps,
        )
        self.norm_pattern_projection = _norm(
            "pattern_projection",
            read,
            normalize_pattern_projection,
            normalize_pattern_projection_affine,
            normalize_pattern_projection_eps,
        )

    @property
    @override
    def _source(self) -> Facts:
        return self

    def reset_parameters(self) -> None:
        for module in self.children():
            if isinstance(module, (HopfieldCore, nn.LayerNorm)):
                module.reset_parameters()

    def forward(
        self,
        input: Inputs,  # noqa: A002
        stored_pattern_padding_mask: Tensor | None = None,
        association_mask: Tensor | None = None,
    ) -> Tensor:
        tensors, is_single = self._prepare(input)
        answers: Tensor = self.association_core(*tensors, stored_pattern_padding_mask, association_mask)
        answers = self.association_activation(answers)
        if is_single:
            return answers.squeeze(0)
        return answers if self.batch_first else answers.transpose(0, 1)

    def get_association_matrix(
        self,
        input: Inputs,  # noqa: A002
        stored_pattern_padding_mask: Tensor | None = None,
        association_mask: Tensor | None = None,
    ) -> Tensor:
        """(batch, heads, queries, patterns)."""
        return self._associate(input, stored_pattern_padding_mask, association_mask).weights

    def get_projected_pattern_matrix(
        self,
        input: Inputs,  # noqa: A002
        stored_pattern_padding_mask: Tensor | None = None,
        association_mask: Tensor | None = None,
    ) -> Tensor:
        """(batch, heads, patterns, pattern size)."""
        return self._associate(input, stored_pattern_padding_mask, association_mask).values

    @torch.no_grad()
    def _associate(self, data: Inputs, padding: Tensor | None, pairs: Tensor | None) -> Associated:
        tensors, _ = self._prepare(data)
        state, stored, read = tensors
        return self.association_core.associate(state, stored, read, padding, pairs)

    def _prepare(self, data: Inputs) -> tuple[list[Tensor], bool]:
        """State, stored pattern and projection, normalized, batch first; and whether there was none."""
        given = [data] * 3 if isinstance(data, Tensor) else list(data)
        if len(given) != 3:
            raise InvalidTypeError(
                "`input` must be one tensor, or three: stored pattern, state pattern, pattern projection; "
                f"got {len(given)}."
            )
        is_single = given[0].ndim == 2
        if is_single:
            given = [each.unsqueeze(0) for each in given]
        elif not self.batch_first:
            given = [each.transpose(0, 1) for each in given]
        self.association_core.check(given[1], given[0], given[2])
        norms = (self.norm_stored_pattern, self.norm_state_pattern, self.norm_pattern_projection)
        stored, state, read = (each if norm is None else norm(each) for each, norm in zip(given, norms, strict=True))
        return [state, stored, read], is_single


def activation_of(name: str, activation: str | None) -> Callable[[Tensor], Tensor]:
    """The function of torch with that name; the identity for None."""
    found: Any = nn.Identity() if activation is None else getattr(torch, activation, None)
    if not callable(found):
        raise InvalidValueError(
            f"`{name}` must be the name of a function of torch, such as 'relu'; got {activation!r}."
        )
    function: Callable[[Tensor], Tensor] = found
    return function


def _norm(name: str, size: int | None, wanted: bool, affine: bool, eps: float) -> nn.LayerNorm | None:
    _check_affine(name, wanted, affine)
    if not wanted:
        return None
    if size is None:
        raise InvalidValueError(f"`normalize_{name}` needs a size: pass `input_size`, or turn it off.")
    return nn.LayerNorm(size, eps, affine)


def _check_affine(name: str, wanted: bool, affine: bool) -> None:
    if affine and not wanted:
        raise InvalidValueError(f"`normalize_{name}_affine` has no effect without `normalize_{name}`; turn both off.")


def _numbers(name: str, given: Numbers) -> float | list[float]:
    if isinstance(given, Tensor):
        return [float(each) for each in given.detach()] if given.ndim else float(given.detach())
    if isinstance(given, bool) or not isinstance(given, (int, float)):
        raise InvalidTypeError(
            f"`{name}` must be a number or a tensor with one for each head; got {type(given).__name__}."
        )
    return float(given)


def _settling(most: Numbers, eps: Numbers) -> Convergence:
    tolerance = _numbers("update_steps_eps", eps)
    if most is None:
        return Convergence(None, tolerance, "sample")
    counts = _numbers("update_steps_max", most)
    if isinstance(counts, list):
        return Convergence([int(each) for each in counts], tolerance, "sample")
    return Convergence(int(counts), tolerance, "sample")
