"""Recall from tables larger than memory, in batches."""

from collections.abc import Callable, Iterable, Sequence

import torch
from torch import Tensor

from ahop._core.blocks import TEMPORARY_BYTES, blocks
from ahop._core.checks import as_group_names
from ahop._core.free_memory import check_free_memory
from ahop._core.missing import holds_nan
from ahop._core.typing import Queries
from ahop.memory.model import Model
from ahop.memory.ranking import Ranked, Ranking, gathered
from ahop.memory.recall import Recall, joined
from ahop.memory.recaller import answers_of
from ahop.memory.scoring import worst_among
from ahop.scale.stores.table_rows import Rows
from ahop.similarities.base import Similarity

# Scores of one block, and what is made of them.
SCORE_BYTES = 64 * 2**20


def stream(
    model: Model,
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
    size = 0 if model.weighs_by_mass else 3 * 4 * count
    check_free_memory(size, f"the scores of {count} patterns")
    parts = []
    for part in blocks(len(queries), size, TEMPORARY_BYTES if size else max(1, len(queries))):
        asked = None if names is None else names[part]
        ranked = ranked_among(model, queries[part], k, batches, asked)
        parts.append(answers_of(ranked, model, k))
    return joined(parts or [answers_of(ranked_among(model, queries, k, list, names), model, k)])


@torch.no_grad()
def ranked_among(
    model: Model,
    queries: Queries,
    k: int,
    batches: Callable[[], Iterable[Rows]],
    groups: Sequence[object] | None = None,
) -> Ranked:
    """The k best of the rows that pass by, with their patterns."""
    asked = model.by_group(groups, len(queries)) or model.by_group(None, 0)
    asked = [(settled_among(model, similarity, queries[which], batches), which) for similarity, which in asked]
    rankings = [Ranking(model, len(which), k, queries, queries.shape[1]) for _, which in asked]
    for rows in batches():
        stored = model.modulation(rows.patterns)
        for (similarity, which), ranking in zip(asked, rankings, strict=True):
            for part in blocks(len(rows), 16 * max(1, len(which)), SCORE_BYTES):
                scores = similarity(stored[part], queries[which])
                ranking.update(scores, rows.ids[part], patterns=rows.patterns[part])
    return gathered([(which, ranking.ranked()) for (_, which), ranking in zip(asked, rankings, strict=True)])


@torch.no_grad()
def settled_among(
    model: Model, similarity: Similarity, queries: Queries, batches: Callable[[], Iterable[Rows]]
) -> Similarity:
    """A similarity whose scores depend on all rows, for these queries; that takes one more look at the rows."""
    if not similarity.compares_patterns or not len(queries):
        return similarity
    if not holds_nan(queries) and not any(holds_nan(rows.patterns) for rows in batches()):
        return similarity
    worst = queries.new_full((len(queries), similarity.worst_count), torch.inf)
    for rows in batches():
        worst = torch.minimum(worst, worst_among(similarity, model.modulation(rows.patterns), queries))
    return similarity.with_worst(worst)
