"""A metric of the user's own."""

from collections.abc import Callable
from typing import final

import torch
from torch import Tensor
from typing_extensions import override

from ahop._core.tensors import all_finite, saturate
from ahop._core.typing import AnyQueries, Array, Patterns, Scores
from ahop.errors import InvalidTypeError, InvalidValueError, ShapeError
from ahop.similarities.base import Similarity, over_leading_axes


@final
class CallableSimilarity(Similarity):
    r"""$s = f(\Xi, X)$: the scores of any function of patterns (n, d) and queries (b, d), an array or tensor (b, n).

    Larger must be closer: turn the sign of a distance. The function sees NaN as they are. A pair that it knows nothing
    of should get `torch.finfo(queries.dtype).min`. A memory with a function in it cannot be saved: nothing in a file
    can run.

    Args:
        function: such as a metric of another package, or a trained network.
        name: what errors call it.
    """

    missing_is_evidence = True

    def __init__(self, function: Callable[[Tensor, Tensor], Array], name: str = "callable") -> None:
        super().__init__()
        if not callable(function):
            raise InvalidTypeError(
                f"`function` must be a function of patterns and queries; got {type(function).__name__}. Pass the "
                "function itself, without calling it."
            )
        self.function = function
        self.name = str(name)

    @override
    def configuration(self) -> dict[str, object]:
        return {"function": self.function, "name": self.name}

    @override
    def extra_repr(self) -> str:
        function = getattr(self.function, "__name__", type(self.function).__name__)
        return f"function={function}, name={self.name!r}"

    @override
    def forward(self, patterns: Patterns, queries: AnyQueries) -> Scores:
        return over_leading_axes(self._scores, patterns, queries)

    def _scores(self, patterns: Patterns, queries: AnyQueries) -> Scores:
        shape = len(queries), len(patterns)
        if not len(queries):
            return queries.new_empty(shape)
        scores = torch.as_tensor(self.function(patterns, queries), device=queries.device)
        if scores.shape != shape:
            mend = "Turn them by `.T`." if scores.shape == shape[::-1] else "Give one row for each query."
            raise ShapeError(
                f"The function {self.name!r} must give scores of shape {shape}, queries by patterns; got "
                f"{tuple(scores.shape)}. {mend}"
            )
        if not scores.is_floating_point():
            scores = scores.to(queries.dtype)
        if not all_finite(scores):
            raise InvalidValueError(
                f"The function {self.name!r} must give finite scores; got NaN or infinity. Values that were not "
                "observed are NaN: leave them out, and give pairs that share nothing `torch.finfo(queries.dtype).min`."
            )
        return saturate(scores, queries.dtype)
