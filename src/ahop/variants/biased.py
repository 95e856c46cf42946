"""A constant shift."""

from typing import final

import torch
from torch import Generator, Tensor
from typing_extensions import override

from ahop._core.checks import check_not_negative
from ahop._core.typing import Patterns, Queries, Scores
from ahop.variants.base import Variant, as_parameter, as_plain


@final
class BiasedVariant(Variant):
    r"""$x = \xi + d$ for one constant vector $d$.

    The likelihood is 1 for a pattern at exactly that distance and 0 for all others; `tolerance`, relative to the
    values, is what still counts as exactly.

    Paper:
        [def:biased-var].
    """

    def __init__(self, bias: float | Tensor | list[float], tolerance: float = 1e-5) -> None:
        super().__init__()
        self.bias: Tensor
        self.register_buffer("bias", as_parameter("bias", bias))
        self.tolerance = check_not_negative("tolerance", tolerance)

    @override
    def configuration(self) -> dict[str, object]:
        return {"bias": as_plain(self.bias), "tolerance": self.tolerance}

    @override
    def corrupt(self, originals: Queries, generator: Generator) -> Queries:
        return originals + self.bias.to(originals)

    @override
    def log_likelihood(self, patterns: Patterns, queries: Queries) -> Scores:
        moved = patterns + self.bias.to(patterns)
        largest = torch.cdist(queries, moved, p=torch.inf)
        allowed = self.tolerance * (1 + moved.abs().amax(-1))
        return torch.where(largest <= allowed, 0.0, -torch.inf).to(patterns)
