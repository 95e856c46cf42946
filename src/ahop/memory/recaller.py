"""Base class of all that recall from tensors: one `recall`, which checks its arguments."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Generic, TypeVar, overload

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ahop._core.checks import check_count
from ahop._core.inputs import as_queries
from ahop._core.typing import Entries, NotTensor, Queries, RowsLike
from ahop.errors import UnsupportedError
from ahop.memory.model import Model
from ahop.memory.ranking import Ranked, posterior_of
from ahop.memory.recall import Recall, in_kind_of, labels_at

# The patterns that may be answered, as one that recalls takes them: rows, or columns and their values.
Filter = TypeVar("Filter")


class BaseRecaller(ABC, Generic[Filter]):
    """The one `recall`: it checks its arguments and answers in the kind of array that was given.

    A subclass says what queries look like, `columns` and `dimensions`, and answers checked tensors, `_recalled`.
    """

    @property
    @abstractmethod
    def columns(self) -> tuple[str, ...] | None:
        """The names of the columns of the stored patterns; None if they have none."""

    @property
    @abstractmethod
    def dimensions(self) -> int:
        """The number of these columns."""

    @overload
    def recall(
        self,
        queries: Tensor,
        k: int = 1,
        *,
        where: Filter | None = None,
        groups: Sequence[object] | None = None,
        same: Entries | None = None,
    ) -> "Recall[Tensor]": ...
    @overload
    def recall(
        self,
        queries: NotTensor,
        k: int = 1,
        *,
        where: Filter | None = None,
        groups: Sequence[object] | None = None,
        same: Entries | None = None,
    ) -> "Recall[NDArray[Any]]": ...
    def recall(
        self,
        queries: RowsLike,
        k: int = 1,
        *,
        where: Filter | None = None,
        groups: Sequence[object] | None = None,
        same: Entries | None = None,
    ) -> "Recall[Any]":
        """Recall the k stored patterns that each query most likely came from.

        Scores are computed in blocks and dropped. Separations that are no distribution (Hop, D-Hop, E-Hop) rank by
        score, and their posterior is its softmax. A store reads its whole table in batches, so it may be larger than
        memory; for many queries build an `index`.

        Args:
            queries: (b, d), NaN where nothing was observed. The columns of a frame are put into the order of the stored
                one; those that it has not got were not observed.
            where: the patterns that may be answered; the posterior is among them. Beyond those there are, the index is
                -1. A memory takes rows, as flags (n,) or as numbers; a store and a cluster take columns and the values
                that they may have, one or several; an index takes both.
            groups: the origin of each query, such as its device, if the memory was fitted with groups. Unknown groups
                are answered by what all have in common.
            same: queries that have their origin in common, such as repeated scans or the frames of a video: an entry
                for each query, equal where the origin is the same. Their evidence is added, and there is one answer for
                each entry, in the order of their first appearance. They must be damaged independently of each other:
                a damage that they share is counted as often as there are queries. A memory and a service take this.

        Raises:
            UnavailableError: a cluster or a service does not answer, or says to come back later.
        """
        checked = self._checked(queries)
        if same is None:
            found = self._recalled(checked, check_count("k", k), where, groups)
        else:
            found = self._recalled_together(checked, check_count("k", k), where, groups, same)
        return in_kind_of(queries, found)

    def _checked(self, queries: RowsLike) -> Any:
        """Queries as `_recalled` takes them."""
        return as_queries(queries, self._like(), columns=self.columns, query_dimensions=self._query_dimensions)

    def _like(self) -> Tensor:
        """A tensor (n, d) in the dtype and on the device of the stored patterns; n may be 0."""
        return torch.empty(0, self.dimensions)

    @property
    def _query_dimensions(self) -> int | None:
        """Number of columns of queries, where they are others than those of the patterns."""
        return None

    @abstractmethod
    def _recalled(
        self, queries: Queries, k: int, where: Filter | None, groups: Sequence[object] | None
    ) -> "Recall[Tensor]":
        """Answer queries that were checked; k is at least 1, and may be larger than the number of patterns."""

    def _recalled_together(
        self, queries: Queries, k: int, where: Filter | None, groups: Sequence[object] | None, same: Entries
    ) -> "Recall[Tensor]":
        """Answer queries that have their origin in common; refused where only candidates of each query are seen."""
        raise UnsupportedError(
            "`same` adds what queries say about every pattern, and this sees a few only. Ask a memory of the same "
            "patterns, such as `index.memory` or `store.memory()`."
        )


def answers_of(
    ranked: Ranked, model: Model, k: int, patterns: Tensor | None = None, labels: NDArray[np.object_] | None = None
) -> Recall[Tensor]:
    """Look up the k best rows and their posterior.

    Args:
        patterns: (n, d) the stored ones; None if they were kept beside the rows.
        labels: (n,) of these.
    """
    posterior, unknown = posterior_of(ranked, model, k)
    return looked_up(ranked.best(k), posterior, unknown, model, patterns, labels)


def looked_up(
    best: Ranked,
    posterior: Tensor,
    unknown: Tensor | None,
    model: Model,
    patterns: Tensor | None = None,
    labels: NDArray[np.object_] | None = None,
) -> Recall[Tensor]:
    """Look up the patterns and labels of ranked rows; NaN and None where there are no more."""
    found = best.patterns if patterns is None else patterns[best.ids.clamp_min(0)]
    assert found is not None
    if patterns is not None:
        found = found.masked_fill_((best.ids < 0).unsqueeze(-1), torch.nan)
    return Recall(best.ids, posterior, found, unknown, labels_at(labels, best.ids), model.is_checked)
