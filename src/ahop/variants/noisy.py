"""Gaussian noise."""

from math import log, pi
from typing import final

import torch
from torch import Generator, Tensor
from typing_extensions import override

from ahop._core.tensors import centered
from ahop._core.typing import Patterns, Queries, Scores
from ahop.errors import InvalidValueError
from ahop.variants.base import Variant, as_parameter, as_plain


@final
class NoisyVariant(Variant):
    r"""$x - \xi \sim \mathcal N(0, \mathrm{diag}(v))$, with $v$ the **variance** of each dimension.

    Paper:
        [def:noisy-var].
    """

    def __init__(self, variance: float | Tensor | list[float]) -> None:
        super().__init__()
        self.variance: Tensor
        self.register_buffer("variance", as_parameter("variance", variance))
        if not bool((self.variance > 0).all()):
            raise InvalidValueError(f"`variance` must be positive in every dimension; got {as_plain(self.variance)}.")

    @override
    def configuration(self) -> dict[str, object]:
        return {"variance": as_plain(self.variance)}

    @override
    def corrupt(self, originals: Queries, generator: Generator) -> Queries:
        noise = torch.randn(originals.shape, generator=generator, dtype=originals.dtype)
        return originals + noise * self.variance.sqrt().to(originals)

    @override
    def log_likelihood(self, patterns: Patterns, queries: Queries) -> Scores:
        variance = self.variance.to(patterns).expand(patterns.shape[-1])
        scale = variance.rsqrt()
        center, stored = centered(patterns)
        distances = torch.cdist((queries - center) * scale, stored * scale).square()
        return -0.5 * (distances + variance.log().sum() + patterns.shape[-1] * log(2 * pi))
