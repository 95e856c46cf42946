"""Names for the shapes of tensors, one alias for each word of the house.

They are checked by beartype while the tests run and cost nothing in production.
A leading `*batch` lets the same formula serve a layer, where each sample has patterns of its own.
"""

from typing import Any, TypeAlias, TypeVar

from jaxtyping import Bool, Float, Int
from numpy.typing import NDArray
from torch import Tensor

Patterns: TypeAlias = Float[Tensor, "*batch n d"]
Queries: TypeAlias = Float[Tensor, "*batch b d"]
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

# What people hand in at the public doors: checked there by `_checks`, with a sentence that says the mend.
Array: TypeAlias = Tensor | NDArray[Any]
# Arrays in, arrays out of the same kind.
Kind = TypeVar("Kind", Tensor, NDArray[Any])
