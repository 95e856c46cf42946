"""No modulation."""

from typing import final

from typing_extensions import override

from ahop._core.typing import Patterns
from ahop.modulations.base import Modulation


@final
class Unmodulated(Modulation):
    r"""$\mathrm{mod}(\xi) = \xi$."""

    @override
    def forward(self, patterns: Patterns) -> Patterns:
        return patterns
