"""Sources of the pairs of a fit."""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from torch import Generator

from ahop._core.checks import check_kind
from ahop._core.frames import names_of
from ahop._core.inputs import as_matrix, as_origins, as_queries
from ahop._core.label_tensors import rows_named
from ahop._core.typing import Entries, RowsLike
from ahop.errors import InvalidTypeError, InvalidValueError
from ahop.memory.memory import AssociativeMemory
from ahop.variants.base import Pairs, Variant


@runtime_checkable
class Source(Protocol):
    """Source of pairs for a solver."""

    def draw(self) -> Pairs: ...


@dataclass(frozen=True)
class GivenPairs:
    """Pairs that were checked already."""

    pairs: Pairs

    def draw(self) -> Pairs:
        return self.pairs


class PairSource:
    """Given pairs, or a variant that pairs can be drawn from without end.

    Args:
        other_columns: copies may have other columns than patterns.
    """

    def __init__(
        self,
        memory: AssociativeMemory,
        pairs: Pairs | tuple[Entries, RowsLike] | None,
        variant: Variant | None,
        samples: int,
        seed: int,
        may_be_empty: bool = False,
        other_columns: bool = False,
    ) -> None:
        if pairs is None and variant is None:
            raise InvalidTypeError(
                "There is nothing to learn from. Give `fit` `pairs=(origins, copies)`; or `queries=` of a log; or "
                "`labels=` that repeat, of rows that were measured several times; or a `variant` to draw pairs from."
            )
        if pairs is not None and variant is not None:
            raise InvalidTypeError(
                "Give `fit` either `pairs=(origins, copies)` or a `variant` to draw pairs from, not both."
            )
        self.memory, self.samples = memory, samples
        self.variant = None if variant is None else check_kind("variant", variant, Variant)
        self.generator = Generator().manual_seed(seed)
        self.given = None if pairs is None else _checked(memory, pairs, may_be_empty, other_columns)

    def draw(self) -> Pairs:
        """The given pairs, the same each time; or as many fresh ones as `samples` says."""
        if self.given is not None:
            return self.given
        assert self.variant is not None
        return self.variant.sample(self.memory.patterns, self.samples, self.generator, self.memory.log_prior)


def _checked(
    memory: AssociativeMemory, pairs: Pairs | tuple[Entries, RowsLike], may_be_empty: bool, other_columns: bool
) -> Pairs:
    has_rows = isinstance(pairs, Pairs) or memory.labels is None
    if isinstance(pairs, Pairs):
        pairs = pairs.origins, pairs.queries
    if not isinstance(pairs, tuple | list) or len(pairs) != 2:
        raise InvalidTypeError(
            f"`pairs` must be two arrays, `(origins, copies)`; got {type(pairs).__name__}. Of a frame with a column of "
            "origins pass `(frame['origin'], frame.drop(columns='origin'))`."
        )
    origins, copies = pairs
    asked = _width_of(copies, memory) if other_columns else memory.model.query_dimensions
    queries = as_queries(copies, memory.patterns, "copies", memory.columns, asked)
    if not len(queries) and not may_be_empty:
        raise InvalidValueError("`pairs` must hold at least one pair; got none.")
    if not has_rows and memory.labels is not None:
        origins = rows_named(memory.labels, origins)
    return Pairs(as_origins(origins, len(queries), len(memory)).to(queries.device), queries)


def _width_of(copies: RowsLike, memory: AssociativeMemory) -> int | None:
    """Number of columns of the copies, if they are others than those of the patterns; those with names are not."""
    if memory.columns is not None and names_of(copies, "copies") is not None:
        return None
    width = as_matrix("copies", copies).shape[-1]
    return None if width == memory.dimensions else width
