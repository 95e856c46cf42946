"""One corruption after another."""

from collections.abc import Sequence
from typing import final

import torch
from torch import Generator, nn
from typing_extensions import override

from ahop._core.checks import check_kind
from ahop._core.typing import Patterns, Queries, Scores
from ahop.errors import InvalidValueError
from ahop.variants.base import Variant
from ahop.variants.biased import BiasedVariant
from ahop.variants.noisy import NoisyVariant


@final
class ComposedVariant(Variant):
    """The parts applied in order.

    Shifts and Gaussian noise compose to one Gaussian, so for these the likelihood is exact. With anything else in
    between, the paper calls it analytically cumbersome: sample, and learn it. `MixedVariant` is the exception.

    Paper:
        Figure 1 (d) [fig:cloud].
    """

    def __init__(self, parts: Sequence[Variant]) -> None:
        super().__init__()
        if not parts:
            raise InvalidValueError("`parts` must hold at least one variant; got none.")
        self.parts = nn.ModuleList(check_kind("parts", part, Variant) for part in parts)

    @override
    def configuration(self) -> dict[str, object]:
        return {"parts": list(self.parts)}

    @override
    def corrupt(self, originals: Queries, generator: Generator) -> Queries:
        for part in self.parts:
            assert isinstance(part, Variant)  # nn.ModuleList forgets the type
            originals = part.corrupt(originals, generator)
        return originals

    @override
    def log_likelihood(self, patterns: Patterns, queries: Queries) -> Scores:
        noise = [part.variance for part in self.parts if isinstance(part, NoisyVariant)]
        shifts = [part.bias for part in self.parts if isinstance(part, BiasedVariant)]
        if not noise or len(noise) + len(shifts) < len(self.parts):
            return super().log_likelihood(patterns, queries)
        variance = torch.stack([part.expand(patterns.shape[-1]) for part in noise]).sum(0)
        for shift in shifts:
            patterns = patterns + shift.to(patterns)
        return NoisyVariant(variance).log_likelihood(patterns, queries)
