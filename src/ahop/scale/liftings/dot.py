"""The inner product, which is one already."""

from typing import final

from torch import Tensor
from typing_extensions import override

from ahop._core.checks import check_count
from ahop._core.typing import Patterns, Queries
from ahop.scale.liftings.base import Lifting, complete, refuse_gaps, scaled_up


@final
class DotLifting(Lifting):
    r"""$c(\xi) = \xi$, $a(x) = x$; a query with gaps is scaled up by what is missing."""

    def __init__(self, dimensions: int) -> None:
        super().__init__()
        self.dimensions = self.size = check_count("dimensions", dimensions)

    @override
    def configuration(self) -> dict[str, object]:
        return {"dimensions": self.dimensions}

    @override
    def _lift_patterns(self, patterns: Patterns) -> Tensor:
        refuse_gaps(patterns)
        return patterns

    @override
    def _lift_queries(self, queries: Queries) -> Tensor:
        return scaled_up(complete(queries), queries)
