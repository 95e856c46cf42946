"""The `link` function: which rows of two tables belong together, as a long table."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ahop._core import optional
from ahop._core.checks import as_group_names, check_count, check_rate
from ahop._core.frames import index_of
from ahop._core.inputs import as_queries
from ahop._core.labels import as_labels
from ahop._core.typing import Entries, RowsLike
from ahop.errors import InvalidTypeError, InvalidValueError, UnsupportedError
from ahop.fitting.fit import fit
from ahop.memory.memory import AssociativeMemory
from ahop.memory.recall import Recaller
from ahop.operate.linking.assignment import assign
from ahop.operate.linking.comparisons import Compared, Comparison, compare, weigh
from ahop.operate.linking.edges import Edges, edges_of, posterior_of_all
from ahop.operate.linking.misnamed import Misnamed, find_misnamed
from ahop.operate.linking.propagation import Beliefs, least_alone, propagate
from ahop.scale.indexes.row_index import Index


@dataclass(frozen=True)
class Unmatched:
    """Rows that were linked to none.

    Attributes:
        rows: (m,) their labels, or their numbers if there are no labels.
        probability: (m,) that each of them belongs to no row of the other table.
    """

    rows: NDArray[Any]
    probability: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.rows)


@dataclass(frozen=True)
class Links:
    """Rows that belong together: a long table with a line for each pair, by right row and rank.

    Attributes:
        left: (m,) labels of the left rows, or their numbers if there are no labels.
        right: (m,) of the right rows.
        probability: (m,) that both belong together.
        rank: (m,) 1 for the link; from 2 on other candidates of the same right row, likeliest first.
        unmatched_left: rows that are linked to none.
        unmatched_right: the same of the right table.
        unmatched_share: how many of the right rows belong to no left row, as estimated or as was given.
        linked: (b,) for each right row the number of the left row that it is linked to, -1 for none.
        misnamed: right rows that are not what they are called; None where the tables have no names in common.
        comparisons: how much each of the similarities said that were given.
    """

    left: NDArray[Any]
    right: NDArray[Any]
    probability: NDArray[np.float64]
    rank: NDArray[np.int64]
    unmatched_left: Unmatched
    unmatched_right: Unmatched
    unmatched_share: float
    linked: NDArray[np.int64]
    misnamed: Misnamed | None = None
    comparisons: Mapping[str, Comparison] | None = None

    def __len__(self) -> int:
        return len(self.left)

    def __str__(self) -> str:
        is_link = self.rank == 1
        sure = f", right with {100 * self.probability[is_link].mean():.1f} % on average" if is_link.any() else ""
        named = "" if self.misnamed is None else f" {self.misnamed}"
        return (
            f"{int(is_link.sum())} links{sure}. Linked to none: {len(self.unmatched_left)} rows of the left table, "
            f"{len(self.unmatched_right)} of the right.{named}"
        )

    def to_dict(self) -> dict[str, NDArray[Any]]:
        """The columns left, right, probability and rank by name, as `polars.DataFrame` and others take them."""
        return {"left": self.left, "right": self.right, "probability": self.probability, "rank": self.rank}

    def to_frame(self) -> Any:
        """Return the links as a frame of pandas."""
        return optional.pandas().DataFrame(self.to_dict())

    def to_arrow(self) -> Any:
        """Return the links as a table of Arrow."""
        return optional.pyarrow().table({name: column.tolist() for name, column in self.to_dict().items()})


# Rows of the right table that are enough to learn from.
LEARNED_FROM = 1024


def link(
    left: Recaller | RowsLike,
    right: RowsLike,
    *,
    one_to_one: bool = True,
    unmatched: float | None = None,
    comparisons: Mapping[str, Any] | None = None,
    candidates: int = 64,
    k: int = 1,
    groups: Sequence[object] | None = None,
    labels: Entries | None = None,
    progress: bool = True,
) -> Links:
    """Link two tables: each row of the right one is a damaged copy of a row on the left, or of none.

    All rows decide together: a left row that clearly belongs to one right row is free for no other. That is more than
    any right row knows by itself, so more answers are right than by `recall`, also than by a perfect one.

    Args:
        left: a fitted memory, or an index of one; or bare rows, from which a memory is learned without labels by
            `fit(left, queries=right)`.
        right: (b, d), NaN where nothing was observed. Names of columns are honored as by `recall`.
        one_to_one: whether a left row belongs to one right row at most; else right rows decide by themselves, as with
            several copies of one row.
        unmatched: share of the right rows that belong to no left row. Estimated if None; a memory that was not fitted
            cannot tell, and then every right row is taken to have an origin, if there are left rows enough.
        comparisons: similarities of rows that something else has computed, such as those of names by Jaro and Winkler:
            by name, (b, n) with a row for each right row, larger is closer, NaN where rows could not be compared. How
            much each says is learned from the tables; agreement on a rare value says more.
        candidates: left rows that are considered for each right row.
        k: lines for each right row: its link, and then its likeliest other candidates.
        groups: where each right row comes from, if the memory was fitted with groups.
        labels: names of the right rows; default the index of a pandas frame.
        progress: show a bar while a memory is learned.

    Example:
        >>> import ahop
        >>> links = ahop.link([[0.0, 1.0], [1.0, 0.0]], [[1.1, 0.1], [0.1, 0.9]], progress=False)
        >>> links.left.tolist(), links.right.tolist()
        ([1, 0], [0, 1])
    """
    candidates, k = check_count("candidates", candidates), check_count("k", k)
    memory = _memory(left, right, progress)
    stored = memory.memory if isinstance(memory, Index) else memory
    queries = as_queries(right, stored.patterns, "right", stored.columns, stored.model.query_dimensions)
    names = None if groups is None else as_group_names(groups, len(queries))
    compared = None if comparisons is None else Compared(comparisons, len(queries), len(stored))
    if compared is None:
        edges = edges_of(memory, queries, max(candidates, k), names)
    elif isinstance(memory, Index):
        raise UnsupportedError(
            "An index has candidates by its columns alone. Pass the memory, or leave `comparisons` out."
        )
    else:
        edges = compare(memory, queries, max(candidates, k), names, compared)
    known = index_of(right) if labels is None else labels
    left_names = np.arange(len(stored)) if stored.labels is None else stored.labels
    right_names = np.arange(len(queries)) if known is None else as_labels(known, len(queries))
    gone = memory.removed if isinstance(memory, Index) else torch.zeros(len(stored), dtype=torch.bool)
    share = share_unmatched(unmatched, len(queries), len(memory), one_to_one, stored.detector is not None)
    found = links_of(edges, share, one_to_one, k, left_names, right_names, gone)
    if compared is not None:
        found = replace(found, comparisons=compared.told())
    if known is None or stored.labels is None or bool(gone.any()):
        return found

    def posterior_of(rows: Tensor) -> Tensor:
        shares, _ = posterior_of_all(stored, queries, names, rows)
        return shares if compared is None else weigh(shares, compared.log_ratio(rows))[0]

    return replace(found, misnamed=find_misnamed(posterior_of, left_names, right_names, found.linked))


def links_of(
    edges: Edges,
    unmatched: float | None,
    one_to_one: bool,
    k: int,
    left_names: NDArray[Any],
    right_names: NDArray[Any],
    gone: Tensor,
) -> Links:
    """The links among these candidates.

    Args:
        unmatched: share of the right rows that have no origin; None to estimate it.
        gone: (n,) left rows that are not there any more.
    """
    beliefs = propagate(edges, unmatched, one_to_one)
    return _links(edges, beliefs, assign(edges, beliefs, one_to_one), k, left_names, right_names, gone)


def _memory(left: Any, right: RowsLike, progress: bool) -> AssociativeMemory | Index:
    if isinstance(left, AssociativeMemory | Index):
        return left
    if isinstance(left, Recaller):
        raise InvalidTypeError(
            f"`left` must be a memory, an index of one, or rows; got {type(left).__name__}, whose rows are not counted "
            "from zero. Pass `store.memory()`, or the memory that it was made of."
        )
    memory = AssociativeMemory(left)
    queries = as_queries(right, memory.patterns, "right", memory.columns)
    if not len(queries):
        return memory
    every = -(-len(queries) // LEARNED_FROM)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "[0-9]+ queries are too few")  # a table may have few rows
        return fit(memory, queries=queries[::every], similarity="auto", progress=progress)


def share_unmatched(given: float | None, right: int, left: int, one_to_one: bool, can_tell: bool) -> float | None:
    """The share of the right rows that have no origin, as far as it is known beforehand."""
    least = least_alone(right, left) if one_to_one else 0.0
    if given is None:
        return None if can_tell else least
    if check_rate("unmatched", given) == 1:
        raise InvalidValueError("`unmatched` must be less than 1: nothing would be linked.")
    if given < least:
        raise InvalidValueError(
            f"`unmatched` must be at least {least:.4g}, as {left} left rows cannot be origins of {right} right rows, "
            f"one each; got {given!r}. Leave it out to have it estimated, or pass `one_to_one=False`."
        )
    return float(given)


def _links(
    edges: Edges, beliefs: Beliefs, is_link: Tensor, k: int, left: NDArray[Any], right: NDArray[Any], gone: Tensor
) -> Links:
    """The long table: of each right row its link, then its other candidates, likeliest first.

    Args:
        gone: (n,) left rows that are not there any more.
    """
    order = (beliefs.pairs + 2.0 * is_link).argsort(descending=True, stable=True)
    order = order[edges.right[order].argsort(stable=True)]
    first = torch.searchsorted(edges.right[order], edges.right[order])  # where the lines of the same right row begin
    rank = torch.arange(1, len(order) + 1) - first
    has_link = torch.zeros(len(edges.rest), dtype=torch.bool).index_fill_(0, edges.right[is_link], True)
    rank += (~has_link)[edges.right[order]].long()  # without a link, candidates are still only candidates
    order, rank = order[rank <= k], rank[rank <= k]
    taken = gone.index_fill(0, edges.left[is_link], True)
    linked = torch.full((len(edges.rest),), -1).index_copy_(0, edges.right[is_link], edges.left[is_link])
    return Links(
        left[edges.left[order].numpy()],
        right[edges.right[order].numpy()],
        beliefs.pairs[order].numpy(),
        rank.numpy(),
        Unmatched(left[~taken.numpy()], beliefs.left_alone[~taken].numpy()),
        Unmatched(right[~has_link.numpy()], beliefs.right_alone[~has_link].numpy()),
        float(beliefs.right_alone.mean()) if len(edges.rest) else 0.0,
        linked.numpy(),
    )
