"""A lifting of rows that are transformed first."""

from typing import final

from torch import Tensor
from typing_extensions import override

from ahop._core.checks import check_kind
from ahop._core.typing import Patterns, Queries
from ahop.scale.liftings.base import Lifting
from ahop.transforms.base import Transform


@final
class TransformedLifting(Lifting):
    r"""$a(t(x))$ and $c(t(\xi))$ of another lifting."""

    def __init__(self, base: Lifting, transform: Transform) -> None:
        super().__init__()
        self.base, self.transform = check_kind("base", base, Lifting), check_kind("transform", transform, Transform)
        self.size, self.is_distance, self.is_whole = base.size, base.is_distance, base.is_whole

    @override
    def configuration(self) -> dict[str, object]:
        return {"base": self.base, "transform": self.transform}

    @override
    def _lift_patterns(self, patterns: Patterns) -> Tensor:
        return self.base._lift_patterns(self.transform(patterns))

    @override
    def _lift_queries(self, queries: Queries) -> Tensor:
        return self.base._lift_queries(self.transform(queries))
