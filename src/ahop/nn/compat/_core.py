"""Association core of hopfield-layers: projections under its names of parameters, and our association."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import layer_norm, linear, pad

from ahop._core.checks import check_count
from ahop.errors import InvalidValueError, ShapeError
from ahop.nn.association import Associated, Association
from ahop.nn.compat._masks import pairs_of, present_of
from ahop.nn.convergence import Convergence

STD = 0.02
PARAMETERS = (
    "in_proj_weight q_proj_weight k_proj_weight v_proj_weight in_proj_bias bias_k bias_v p_norm_weight p_norm_bias"
)


class HopfieldCore(nn.Module):
    """State, stored pattern and projection (batch, rows, size) to the answer (batch, rows, output).

    The names and shapes of the parameters are those of hopfield-layers, so that its state dicts load, but for one:
    `bias_v` is as wide as what it is a row of, which differs where `pattern_dim` is not `head_dim`.

    Args:
        make_association: given the size of a head, the association; a size of None where nothing is projected.
    """

    in_proj_weight: nn.Parameter | None
    q_proj_weight: nn.Parameter | None
    k_proj_weight: nn.Parameter | None
    v_proj_weight: nn.Parameter | None
    in_proj_bias: nn.Parameter | None
    bias_k: nn.Parameter | None
    bias_v: nn.Parameter | None
    p_norm_weight: nn.Parameter | None
    p_norm_bias: nn.Parameter | None

    def __init__(
        self,
        embed_dim: int | None,
        num_heads: int,
        kdim: int | None,
        vdim: int | None,
        head_dim: int | None,
        pattern_dim: int | None,
        out_dim: int | None,
        *,
        key_as_static: bool,
        query_as_static: bool,
        value_as_static: bool,
        value_as_connected: bool,
        disable_out_projection: bool,
        bias: bool,
        add_bias_kv: bool,
        add_zero_attn: bool,
        normalize_pattern: bool,
        normalize_pattern_affine: bool,
        normalize_pattern_eps: float,
        make_association: Callable[[int | None], Association],
        settling: Convergence,
    ) -> None:
        super().__init__()
        self.num_heads = check_count("num_heads", num_heads)
        self.key_as_static, self.query_as_static, self.value_as_static = key_as_static, query_as_static, value_as_static
        self.value_as_connected, self.disable_out_projection = value_as_connected, disable_out_projection
        self.normalize_pattern, self.normalize_pattern_affine = normalize_pattern, normalize_pattern_affine
        self.normalize_pattern_eps, self.add_zero_attn = normalize_pattern_eps, add_zero_attn
        all_static = key_as_static and query_as_static and value_as_static
        self.static_execution = all_static and disable_out_projection and not (value_as_connected or normalize_pattern)
        if self.static_execution:
            embed_dim = kdim = vdim = head_dim = None
        elif embed_dim is None:
            raise InvalidValueError(
                "`input_size` may be left out only where nothing is projected: all three patterns static, no output "
                "projection, no normalization."
            )
        self.embed_dim = embed_dim
        self.kdim = embed_dim if kdim is None else kdim
        self.vdim = embed_dim if vdim is None else vdim
        self.out_dim = embed_dim if out_dim is None else out_dim
        is_packed = self.kdim == self.vdim == embed_dim and pattern_dim is None and not value_as_connected
        self.head_dim, self.pattern_dim = head_dim, pattern_dim
        if embed_dim is not None:
            self.head_dim = (
                _head_dim(embed_dim, num_heads) if head_dim is None else check_count("hidden_size", head_dim)
            )
            self.pattern_dim = self.head_dim if pattern_dim is None else check_count("pattern_size", pattern_dim)
        if value_as_connected and (self.kdim != self.vdim or self.pattern_dim != self.head_dim):
            raise InvalidValueError(
                "`pattern_projection_as_connected` needs stored patterns and projections of one size, and a "
                "`pattern_size` that is the `hidden_size`."
            )
        if add_bias_kv and (key_as_static or value_as_static):
            raise InvalidValueError(
                "`concat_bias_pattern` needs stored patterns and projections that are projected, not static."
            )
        self._make_parameters(is_packed, bias, add_bias_kv)
        self.association = make_association(self.head_dim)
        self.association.settling = settling
        self.register_load_state_dict_pre_hook(_drop_what_never_worked)  # type: ignore[no-untyped-call]
        self.reset_parameters()

    def _make_parameters(self, is_packed: bool, bias: bool, add_bias_kv: bool) -> None:
        width, read = self._widths()
        query = 0 if self.query_as_static else width
        key = 0 if self.key_as_static else width
        value = 0 if self.value_as_static else read
        connected = self.value_as_connected and not self.key_as_static
        sizes: dict[str, tuple[int, ...]] = {}
        if query + key + value > 0:
            if is_packed:
                sizes["in_proj_weight"] = (query + key + value, self.embed_dim or 0)
            else:
                sizes["q_proj_weight"] = (query, self.embed_dim or 0)
                sizes["k_proj_weight"] = (key, self.kdim or 0)
                sizes["v_proj_weight"] = (value, width if connected else self.vdim or 0)
            if bias:
                sizes["in_proj_bias"] = (query + key + read,)  # the part of static values, too, as it always was
        if add_bias_kv:
            sizes["bias_k"], sizes["bias_v"] = (1, 1, width), (1, 1, read)
        if self.normalize_pattern_affine:
            sizes["p_norm_weight"] = sizes["p_norm_bias"] = (self.head_dim or 0,)
        for name in PARAMETERS.split():
            size = sizes.get(name, (0,))
            self.register_parameter(name, nn.Parameter(torch.empty(size)) if 0 not in size else None)
        self.out_proj = None if self.disable_out_projection else nn.Linear(read, self.out_dim or 0, bias)

    def _widths(self) -> tuple[int, int]:
        """Sizes, over all heads, of the space where patterns are compared and of the values."""
        return self.num_heads * (self.head_dim or 0), self.num_heads * (self.pattern_dim or 0)

    def reset_parameters(self) -> None:
        for name, parameter in self.named_parameters(recurse=False):
            if name in ("in_proj_bias", "p_norm_bias"):
                nn.init.zeros_(parameter)
            elif name == "p_norm_weight":
                nn.init.ones_(parameter)
            else:
                nn.init.normal_(parameter, std=STD)
        if self.out_proj is not None:
            nn.init.normal_(self.out_proj.weight, std=STD)
            if self.out_proj.bias is not None:
                nn.init.zeros_(self.out_proj.bias)

    def forward(
        self, query: Tensor, key: Tensor, value: Tensor, padding: Tensor | None = None, pairs: Tensor | None = None
    ) -> Tensor:
        heads, masks = self._prepare(query, key, value, padding, pairs)
        return self._join(self.association.attend(*heads, *masks))

    def associate(
        self, query: Tensor, key: Tensor, value: Tensor, padding: Tensor | None = None, pairs: Tensor | None = None
    ) -> Associated:
        heads, masks = self._prepare(query, key, value, padding, pairs)
        return self.association.associate(*heads, *masks)

    def _join(self, retrieved: Tensor) -> Tensor:
        joined = retrieved.transpose(1, 2).flatten(2)
        return joined if self.out_proj is None else self.out_proj(joined)

    def _prepare(
        self, query: Tensor, key: Tensor, value: Tensor, padding: Tensor | None, pairs: Tensor | None
    ) -> tuple[tuple[Tensor, Tensor, Tensor], tuple[Tensor | None, Tensor | None]]:
        batch, count = key.shape[:2]
        asked, stored, read = self._project(query, key, value)
        mask = present_of(padding, batch, count)
        allowed, prior = pairs_of(pairs, (batch, self.num_heads, query.shape[1], count))
        if self.normalize_pattern:
            asked, stored = self._normalize(asked), self._normalize(stored)
        if self.bias_k is not None and self.bias_v is not None:
            stored = torch.cat([stored, self._split(self.bias_k).expand(batch, -1, -1, -1)], dim=-2)
            read = torch.cat([read, self._split(self.bias_v).expand(batch, -1, -1, -1)], dim=-2)
        if self.add_zero_attn:
            stored, read = pad(stored, (0, 0, 0, 1)), pad(read, (0, 0, 0, 1))
        more = (0, stored.shape[-2] - count)  # what was added takes part, whatever the masks say
        mask = None if mask is None else pad(mask, more, value=True)
        allowed = None if allowed is None else pad(allowed, more, value=True)
        prior = None if prior is None else pad(prior, more)
        both = [each for each in (mask, allowed) if each is not None]
        return (asked, stored, read), ((both[0] & both[-1]) if both else None, prior)

    def _project(self, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        (query_weight, query_bias), (key_weight, key_bias), (value_weight, value_bias) = self._projections()
        asked = self._heads(query, query_weight, query_bias)
        stored = self._heads(key, key_weight, key_bias)
        if self.value_as_connected and key_weight is not None:
            value = linear(value, key_weight, key_bias)
            if value_weight is None:
                return asked, stored, self._split(value)
        return asked, stored, self._heads(value, value_weight, value_bias)

    def _projections(self) -> list[tuple[Tensor | None, Tensor | None]]:
        """Weight and bias of each of the three; a weight of None for what is static."""
        width, read = self._widths()
        sizes = (0 if self.query_as_static else width, 0 if self.key_as_static else width, read)
        biases = [None] * 3 if self.in_proj_bias is None else torch.split(self.in_proj_bias, list(sizes))
        weights: list[Tensor | None] = [self.q_proj_weight, self.k_proj_weight, self.v_proj_weight]
        if self.in_proj_weight is not None:
            rows = (*sizes[:2], 0 if self.value_as_static else read)
            weights = [part if len(part) else None for part in torch.split(self.in_proj_weight, list(rows))]
        return list(zip(weights, biases, strict=True))

    def _heads(self, data: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
        """(batch, heads, rows, size): projected, or the same for each head."""
        if weight is None:
            return data.unsqueeze(1).expand(-1, self.num_heads, -1, -1)
        return self._split(linear(data, weight, bias))

    def _split(self, projected: Tensor) -> Tensor:
        return projected.view(*projected.shape[:-1], self.num_heads, -1).transpose(-3, -2)

    def _normalize(self, heads: Tensor) -> Tensor:
        return layer_norm(heads, heads.shape[-1:], self.p_norm_weight, self.p_norm_bias, self.normalize_pattern_eps)

    def check(self, query: Tensor, key: Tensor, value: Tensor) -> None:
        wanted = {
            "state pattern": (query, self.head_dim if self.query_as_static else self.embed_dim),
            "stored pattern": (key, self.head_dim if self.key_as_static else self.kdim),
            "pattern projection": (value, self.pattern_dim if self._reads_as_given() else self.vdim),
        }
        for name, (given, size) in wanted.items():
            if size is not None and given.shape[-1] != size:
                raise ShapeError(f"The {name} must have size {size}; got shape {tuple(given.shape)}.")
        if self.static_execution and query.shape[-1] != key.shape[-1]:
            raise ShapeError(
                f"State and stored patterns must have one size; got {query.shape[-1]} and {key.shape[-1]}."
            )
        if key.shape[:2] != value.shape[:2] or query.shape[0] != key.shape[0]:
            raise ShapeError(
                "There must be one batch, and one projection for each stored pattern; got shapes "
                f"{tuple(query.shape)}, {tuple(key.shape)} and {tuple(value.shape)} of state, stored, projection."
            )

    def _reads_as_given(self) -> bool:
        return self.value_as_static and not (self.value_as_connected and not self.key_as_static)


def _head_dim(embed_dim: int, num_heads: int) -> int:
    if embed_dim % num_heads:
        raise InvalidValueError(
            f"`input_size` must be a multiple of `num_heads` where `hidden_size` is not given; got {embed_dim} and "
            f"{num_heads}."
        )
    return embed_dim // num_heads


def _drop_what_never_worked(core: nn.Module, state: dict[str, Any], prefix: str, *_: object) -> None:
    """In hopfield-layers `bias_v` had another width where `pattern_size` differs, and was never read: keep our own."""
    name, own = f"{prefix}bias_v", getattr(core, "bias_v", None)
    if own is not None and name in state and state[name].shape != own.shape:
        state[name] = own.detach().clone()
