"""Names for the shapes of tensors, one alias for each word of the house.

They are checked by beartype while the tests run and cost nothing in production.
A leading `*batch` lets the same formula serve a layer, where each sample has patterns of its own.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Protocol, TypeAlias, runtime_checkable

from jaxtyping import Bool, Float, Int
from numpy.typing import NDArray
from torch import Tensor

Patterns: TypeAlias = Float[Tensor, "*batch n d"]
Queries: TypeAlias = Float[Tensor, "*batch b d"]
# Queries that may have other columns than patterns.
AnyQueries: TypeAlias = Float[Tensor, "*batch b q"]
Scores: TypeAlias = Float[Tensor, "*batch b n"]
Weights: TypeAlias = Float[Tensor, "*batch b n"]
PerDimension: TypeAlias = Float[Tensor, "*batch b n d"]
Features: TypeAlias = Float[Tensor, "*batch b n p"]
Coefficients: TypeAlias = Float[Tensor, " p"]
PerQuery: TypeAlias = Float[Tensor, "*batch b"]
PerPattern: TypeAlias = Float[Tensor, " n"]
Vector: TypeAlias = Float[Tensor, " d"]
Origins: TypeAlias = Int[Tensor, " b"]
Indices: TypeAlias = Int[Tensor, " m"]
Flags: TypeAlias = Bool[Tensor, " b"]

# What users pass to public functions: checked there by `_checks`, with an error that says how to fix it.
Array: TypeAlias = Tensor | NDArray[Any]


@runtime_checkable
class Frame(Protocol):
    """A table with names for its columns, of pandas or polars: known by what it can do, and imported by nobody."""

    @property
    def columns(self) -> Any: ...

    def to_numpy(self) -> Any: ...

    def __len__(self) -> int: ...


# One row each: a frame, an array, a tensor, a list of lists.
RowsLike: TypeAlias = Tensor | NDArray[Any] | Frame | Sequence[Any]
# The same where tensors are told apart, as they are answered with tensors and all others with arrays.
NotTensor: TypeAlias = NDArray[Any] | Frame | Sequence[Any]
# One entry for each row: a list, an array, a column of a frame.
Entries: TypeAlias = Iterable[Any]
