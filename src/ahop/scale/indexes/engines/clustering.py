"""Centers of lists of neighbors, by k-means in two levels: many lists cost little more than their root."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ahop._core import optional

PASSES = 10
# Groups of centers that a row is compared with; its nearest center is hardly ever in a farther one.
WIDTH = 16


@dataclass(frozen=True)
class Centers:
    """Centers in groups.

    Attributes:
        groups: (g, D) middles of the groups.
        points: (c, D) the centers, group after group.
        sizes: of the groups.
    """

    groups: Tensor
    points: Tensor
    sizes: list[int]

    @classmethod
    def of(cls, rows: Tensor, count: int) -> "Centers":
        """About `count` centers of the rows (n, D), never more than there are rows: groups, each cut by its share."""
        first = _kmeans(rows, max(1, round(count**0.5)))
        belongs = torch.from_numpy(first.index.search(rows.numpy(), 1)[1]).squeeze(-1)
        parts = [rows[belongs == group] for group in range(first.k)]
        cut = [_kmeans(part, max(1, round(count * len(part) / len(rows)))).centroids for part in parts if len(part)]
        middles = torch.from_numpy(first.centroids)[[len(part) > 0 for part in parts]]
        return cls(middles, torch.cat([torch.from_numpy(each) for each in cut]), [len(each) for each in cut])

    def __len__(self) -> int:
        return len(self.points)

    def nearest(self, rows: Tensor, by_distance: bool) -> Tensor:
        """The center of each row (n,): the nearest one, or that with the largest inner product, in the best groups."""
        width = min(WIDTH, len(self.groups))
        close = _apart(rows, self.groups, by_distance).topk(width, dim=-1, largest=False).indices.flatten()
        order = close.argsort(stable=True)
        best, found = rows.new_full((len(rows),), torch.inf), torch.zeros(len(rows), dtype=torch.long)
        asking = torch.split(order // width, torch.bincount(close, minlength=len(self.groups)).tolist())
        start = 0
        for members, size in zip(asking, self.sizes, strict=True):
            apart, place = _apart(rows[members], self.points[start : start + size], by_distance).min(-1)
            nearer = apart < best[members]
            best[members[nearer]], found[members[nearer]] = apart[nearer], start + place[nearer]
            start += size
        return found


def _apart(rows: Tensor, points: Tensor, by_distance: bool) -> Tensor:
    """Squared distances (n, c) but for what each row adds to all of its own; or minus twice the inner products."""
    lengths = points.square().sum(-1) if by_distance else points.new_zeros(len(points))
    return torch.addmm(lengths, rows, points.mT, alpha=-2)


def _kmeans(rows: Tensor, count: int) -> Any:
    count = min(count, len(rows))
    found = optional.faiss().Kmeans(rows.shape[1], count, niter=PASSES, seed=1, min_points_per_centroid=1)
    found.train(rows.numpy())
    return found
