"""The best rows of each query, kept as scores pass by in blocks."""

from typing import final

import torch
from torch import Tensor
from torch.nn.functional import pad

from ahop._core.tensors import best_first, places_above
from ahop._core.typing import PerQuery, Scores


@final
class BestRows:
    """The k best rows of each query so far, best first.

    Args:
        queries: how many.
        k: how many rows to keep for each.
        like: in whose dtype and on whose device the scores are.
        dimensions: of the patterns, if these are to be kept beside the ids.

    Attributes:
        scores: (b, up to k).
        ids: (b, up to k) numbers of the rows.
        patterns: (b, up to k, d), if they are kept.
    """

    def __init__(self, queries: int, k: int, like: Tensor, dimensions: int | None = None) -> None:
        self.k = k
        self.scores = like.new_empty(queries, 0)
        self.ids = torch.empty_like(self.scores, dtype=torch.long)
        self.patterns = None if dimensions is None else like.new_empty(queries, 0, dimensions)

    def update(self, scores: Scores, best: PerQuery, ids: Tensor, patterns: Tensor | None = None) -> None:
        """See the scores (b, m) of more rows. A stable sort: of equals the first row is kept.

        Args:
            best: (b,) of these scores.
            ids: (m,) of these rows.
            patterns: (m, d) of these rows, if they are to be kept.
        """
        is_full, queries = self.scores.shape[1] == self.k, torch.arange(len(scores), device=scores.device)
        if is_full:  # most queries have nothing to gain from one more block, and the others little
            queries = (best > self.scores[:, -1]).nonzero().squeeze(-1)
            if not len(queries):
                return
            more, columns = _above(scores[queries] if len(queries) < len(scores) else scores, self.scores[queries, -1:])
        else:
            more, columns = best_first(scores, min(self.k, scores.shape[1]))
        if not self.scores.shape[1]:
            self.scores, self.ids = more, ids[columns]
            self.patterns = None if self.patterns is None or patterns is None else patterns[columns]
            return
        both = torch.cat([self.scores[queries], more], dim=-1).sort(dim=-1, descending=True, stable=True)
        order, kept = both.indices[:, : self.k], both.values[:, : self.k]
        named = torch.cat([self.ids[queries], ids[columns]], dim=-1).gather(-1, order)
        stored = None
        if self.patterns is not None and patterns is not None:
            both_stored = torch.cat([self.patterns[queries], patterns[columns]], dim=1)
            stored = both_stored.gather(1, order.unsqueeze(-1).expand(-1, -1, both_stored.shape[-1]))
        if not is_full:
            self.scores, self.ids, self.patterns = kept, named, stored
            return
        self.scores[queries], self.ids[queries] = kept, named
        if self.patterns is not None and stored is not None:
            self.patterns[queries] = stored

    def padded(self) -> tuple[Tensor, Tensor, Tensor | None]:
        """Ids, scores and patterns of k rows; -1, minus infinity and NaN where there are no more."""
        short = self.k - self.scores.shape[1]
        patterns = None if self.patterns is None else pad(self.patterns, (0, 0, 0, short), value=torch.nan)
        return pad(self.ids, (0, short), value=-1), pad(self.scores, (0, short), value=-torch.inf), patterns


def _above(scores: Scores, least: Tensor) -> tuple[Tensor, Tensor]:
    """The scores (b, m) above the least (b, 1), and their columns; rows with fewer of them end in minus infinity."""
    row, column = places_above(scores, least)
    counts = row.bincount(minlength=len(scores))
    place = torch.arange(len(row), device=row.device) - (counts.cumsum(0) - counts)[row]
    found = scores.new_full((len(scores), int(counts.max())), -torch.inf)
    columns = torch.zeros_like(found, dtype=torch.long)
    found[row, place], columns[row, place] = scores[row, column], column
    return found, columns
