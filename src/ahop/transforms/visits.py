"""Pool several measurements of one thing into one pattern."""

from typing import Any, NamedTuple

import torch
from torch import Tensor

from ahop._core.checks import check_rate
from ahop._core.frames import is_frame, like_frame
from ahop._core.inputs import as_matrix, same_kind
from ahop._core.labels import Label, as_labels
from ahop._core.missing import filled, observed
from ahop._core.typing import Entries, RowsLike


class PooledVisits(NamedTuple):
    """One pattern for each label.

    Attributes:
        patterns: (n, d), of the same kind as the rows; a frame of pandas has the labels as its index.
        labels: (n) of the patterns, in the order of their first appearance.
        heard: (n, d) the share of the visits in which each dimension was observed.
    """

    patterns: Any
    labels: list[Label]
    heard: Any


def pool_visits(rows: RowsLike, labels: Entries, least_share: float = 0.3) -> PooledVisits:
    """The mean of what was observed in the visits of each label, (n, d).

    A dimension that was observed in fewer than `least_share` of the visits is NaN, not observed: a transmitter that
    was heard once by chance is no part of the place.

    Args:
        rows: (v, d), one visit each, NaN where nothing was observed.
        labels: (v,) what was visited.
    """
    values, share = as_matrix("rows", rows), check_rate("least_share", least_share)
    named = as_labels(labels, len(values)).tolist()
    number = {label: which for which, label in enumerate(dict.fromkeys(named))}
    where = torch.tensor([number[label] for label in named], dtype=torch.long, device=values.device)
    patterns, heard = pooled(values, where, len(number), share)
    if is_frame(rows):
        tables = [like_frame(rows, each.numpy(), list(number)) for each in (patterns, heard)]
        return PooledVisits(tables[0], list(number), tables[1])
    return PooledVisits(same_kind(patterns, rows), list(number), same_kind(heard, rows))


def pooled(rows: Tensor, where: Tensor, count: int, least_share: float) -> tuple[Tensor, Tensor]:
    """Means and shares (n, d) of rows (v, d) that belong to the patterns `where`, (v,)."""
    visits = torch.bincount(where, minlength=count).to(rows).unsqueeze(-1)
    zeros = rows.new_zeros(count, rows.shape[1])
    heard = zeros.index_add(0, where, observed(rows))
    share = heard / visits
    means = zeros.index_add(
        0, where, filled(rows) / heard.clamp_min(1)[where]
    )  # divided first: sums could be too large
    # Rounding must not turn 3 of 10 into less than 0.3.
    is_enough = (heard > 0) & (share >= least_share - 4 * torch.finfo(rows.dtype).eps)
    return means.where(is_enough, torch.nan), share
