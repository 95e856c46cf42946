"""The best of more rows than fit into memory: they pass by in batches, and only the best stay."""

from collections.abc import Callable, Iterable, Sequence

import torch
from torch import Tensor
from torch.nn.functional import pad

from ahop._blocks import TEMPORARY_BYTES, blocks
from ahop._checks import as_group_names
from ahop._free_memory import check_free_memory
from ahop._typing import Queries
from ahop.indexes.merging import sharpness, weighs_by_mass
from ahop.memory import AssociativeMemory
from ahop.recaller import Recall, joined
from ahop.separations.softmax import Softmax, has_evidence
from ahop.similarities.base import Similarity
from ahop.stores.evidence import Evidence
from ahop.stores.rows import Rows

# Scores of one batch, and what is made of them.
SCORE_BYTES = 64 * 2**20


def stream(
    model: AssociativeMemory,
    queries: Queries,
    k: int,
    batches: Callable[[], Iterable[Rows]],
    count: int,
    groups: Sequence[object] | None = None,
) -> Recall[Tensor]:
    """The k best of all rows for each query, by their numbers, and what all rows say about how sure that is.

    Args:
        batches: lets all rows pass by once more.
        count: how many rows there are at most.
        groups: where each query comes from; None if nobody knows.
    """
    names = None if groups is None else as_group_names(groups, len(queries))
    check_free_memory(2 * 4 * len(queries) * k * queries.shape[1], f"the answers to {len(queries)} queries")
    # Separations that are a distribution and no softmax need all scores of a query at once.
    needs_all = not weighs_by_mass(model)
    size = 3 * 4 * count if needs_all else 0
    check_free_memory(size, f"the scores of {count} patterns")
    parts = []
    for part in blocks(len(queries), size, TEMPORARY_BYTES if needs_all else max(1, len(queries))):
        passing = Passing(model, queries[part], k, needs_all, None if names is None else names[part])
        for rows in batches():
            passing.see(rows)
        parts.append(passing.best())
    if not parts:
        parts = [Passing(model, queries, k, needs_all, names).best()]
    return joined(parts)


class Passing:
    """Queries that look at rows as they pass by. The k best of each are kept, and the mass of all."""

    def __init__(
        self, model: AssociativeMemory, queries: Queries, k: int, needs_all: bool, names: Sequence[str] | None
    ) -> None:
        count, width = queries.shape
        self.model, self.queries, self.k = model, queries, k
        self.similarities = _by_group(model, names, count)
        self.beta = sharpness(model)
        self.scores = torch.full((count, k), -torch.inf)
        self.ids = torch.full((count, k), -1)
        self.patterns = torch.full((count, k, width), torch.nan)
        self.top = torch.full((count,), -torch.inf, dtype=torch.float64)
        self.mass = torch.zeros(count, dtype=torch.float64)
        self.evidence = None if model.detector is None else Evidence(count)
        self.all: list[Tensor] | None = [] if needs_all else None
        self.rows, self.counts = 0, torch.zeros(count, dtype=torch.long)

    @torch.no_grad()
    def see(self, rows: Rows) -> None:
        if not len(rows):
            return
        stored = self.model.modulation(rows.patterns)
        self.rows += len(rows)
        if self.all is not None:
            self.all.append(torch.empty(len(self.queries), len(rows)))
        for similarity, asked in self.similarities:
            for part in blocks(len(asked), 16 * len(rows), SCORE_BYTES):
                place = asked[part]
                scores = similarity(stored, self.queries[place])
                self._keep(scores, place, rows)
                self._weigh(scores, place)
                if self.all is not None:
                    self.all[-1][place] = scores

    def best(self) -> Recall[Tensor]:
        """Number -1 where there are no more."""
        if self.all:
            weights = self.model.separation(torch.cat(self.all, dim=-1))
            best = weights.sort(dim=-1, descending=True).values[:, : self.k]  # a separation keeps the order of scores
            posterior = pad(best, (0, self.k - best.shape[1]))
        else:
            below = self.beta * (self.scores.double() - self.top.unsqueeze(-1)) - self.mass.log().unsqueeze(-1)
            posterior = below.exp().nan_to_num(0).to(self.scores)
            if isinstance(self.model.separation, Softmax):
                posterior = self.model.separation.floored_best(posterior, self.scores, self.counts, self.rows)
        unknown = None
        if self.model.detector is not None and self.evidence is not None:
            unknown = self.model.detector.of_features(self.evidence.features(self.rows)).to(self.scores)
        return Recall(self.ids, posterior.masked_fill(self.ids < 0, 0), self.patterns, unknown)

    def _keep(self, scores: Tensor, place: Tensor, rows: Rows) -> None:
        """The best of these and of those before. A stable sort: of equals the first row is kept, as always."""
        found = scores.topk(min(self.k, scores.shape[1]), dim=-1)
        joined = torch.cat([self.scores[place], found.values], dim=-1).sort(dim=-1, descending=True, stable=True)
        order = joined.indices[:, : self.k]
        self.scores[place] = joined.values[:, : self.k]
        self.ids[place] = torch.cat([self.ids[place], rows.ids[found.indices]], dim=-1).gather(-1, order)
        is_new = order >= self.k
        if bool(is_new.any()):
            width = self.patterns.shape[-1]
            kept = self.patterns[place].gather(1, order.clamp_max(self.k - 1).unsqueeze(-1).expand(-1, -1, width))
            kept[is_new] = rows.patterns[found.indices.gather(-1, (order - self.k).clamp_min(0))[is_new]]
            self.patterns[place] = kept

    def _weigh(self, scores: Tensor, place: Tensor) -> None:
        """The mass relative to the best score so far, in float64: differences of the largest floats fit into it."""
        self.counts[place] += has_evidence(scores).sum(-1)
        best = scores.amax(-1).double()
        top = torch.maximum(self.top[place], best)
        before = torch.exp(self.beta * (self.top[place] - top))
        more = torch.exp(self.beta * (scores.double() - top.unsqueeze(-1))).sum(-1)
        self.mass[place], self.top[place] = self.mass[place] * before + more, top
        if self.evidence is not None:
            self.evidence.see(scores, place)


def _by_group(model: AssociativeMemory, names: Sequence[str] | None, count: int) -> list[tuple[Similarity, Tensor]]:
    """Similarities, and the rows of the queries that each scores."""
    if names is None:
        return [(model.similarity, torch.arange(count))]
    rows: dict[str, list[int]] = {}
    for row, name in enumerate(names):
        rows.setdefault(name, []).append(row)
    return [(model.for_group(name).similarity, torch.tensor(where)) for name, where in rows.items()]
