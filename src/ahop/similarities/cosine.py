"""The cosine of the angle between two vectors."""

from typing import final

from torch import Tensor
from typing_extensions import override

from ahop._core.missing import filled, observed
from ahop._core.overlap import over_observed
from ahop._core.prepared import derived
from ahop._core.tensors import few_columns, of_largest_one, of_unit_length
from ahop._core.typing import Patterns, Queries, Scores
from ahop.similarities.base import Similarity


@final
class CosineSimilarity(Similarity):
    r"""$\cos(\xi, x) = \xi^\top x / (\lVert \xi \rVert \lVert x \rVert)$, 0 where a length is 0.

    With NaN, both lengths are those in the dimensions that both sides have.
    """

    @override
    def forward(self, patterns: Patterns, queries: Queries) -> Scores:
        stored = derived(patterns, _directions)
        asked, columns = of_unit_length(queries), few_columns(queries != 0, stored.shape[-1])
        return asked @ stored if columns is None else asked[..., columns] @ stored[..., columns, :]

    @override
    def partial(self, patterns: Patterns, queries: Queries) -> Scores:
        stored, squares = derived(patterns, with_squares, copies=4)
        asked = of_largest_one(filled(queries).double())
        lengths = over_observed(asked.square(), patterns) * (observed(queries).double() @ squares.mT)
        return over_root(asked @ stored.mT, lengths).to(queries.dtype)


def _directions(patterns: Patterns) -> Tensor:
    return of_unit_length(patterns).mT.contiguous()


def with_squares(patterns: Patterns) -> tuple[Tensor, Tensor]:
    """The patterns with their largest entry at one and zeros in the gaps, and the squares of these; in float64."""
    stored = of_largest_one(filled(patterns).double())
    return stored, stored.square()


def over_root(products: Tensor, squares: Tensor) -> Tensor:
    """The products over the roots of the squares, held in [-1, 1]; 0 where a square is."""
    known = squares > 0
    return (products * squares.where(known, 1).rsqrt()).where(known, 0).clamp(-1, 1)
