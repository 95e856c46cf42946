"""Centres of lists of neighbours, by k-means in two levels: many lists cost little more than their root."""

from typing import Any

import numpy as np

from ahop import _optional

PASSES = 10


def centres(rows: Any, count: int) -> Any:
    """About `count` centres of the rows (n, D), never more than there are rows: groups, each cut by its share."""
    groups = max(1, round(count**0.5))
    first = _kmeans(rows, groups)
    belongs = first.index.search(rows, 1)[1].ravel()
    parts = (rows[belongs == group] for group in range(groups))
    return np.concatenate(
        [_kmeans(part, max(1, round(count * len(part) / len(rows)))).centroids for part in parts if len(part)]
    )


def _kmeans(rows: Any, count: int) -> Any:
    count = min(count, len(rows))
    found = _optional.faiss().Kmeans(rows.shape[1], count, niter=PASSES, seed=1, min_points_per_centroid=1)
    found.train(rows)
    return found
