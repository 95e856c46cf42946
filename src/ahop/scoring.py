"""Rank patterns in memory, with scores in blocks."""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from ahop._blocks import TEMPORARY_BYTES, blocks
from ahop._missing import holds_nan
from ahop._tensors import lowest
from ahop._typing import Patterns, Queries, Scores
from ahop.model import Model
from ahop.ranking import Ranked, Ranking, gathered
from ahop.separations.base import Separation
from ahop.similarities.base import Similarity

# Scores of one block and what is made of them: small enough to stay in the caches of most machines.
BLOCK_BYTES = 8 * 2**20
# Queries that are ranked together: more would leave few columns to a block.
MOST_QUERIES = 1024
# Columns for each row that is kept: sorting the best of a block costs as much as looking at so many.
COLUMNS_A_ROW = 32


@torch.no_grad()
def rank(
    model: Model,
    patterns: Patterns,
    queries: Queries,
    k: int,
    *,
    groups: Sequence[object] | None = None,
    rows: Tensor | None = None,
    log_prior: Tensor | None = None,
) -> Ranked:
    """The k best rows of each query.

    Args:
        patterns: modulated.
        groups: where each query comes from; None if nobody knows.
        rows: (m,) the rows that may be answered; all if None.
        log_prior: (n,) how often each pattern is the origin.
    """
    stored, ids = patterns, torch.arange(len(patterns), device=patterns.device)
    if rows is not None:
        stored, ids = patterns[rows], rows
    found: list[tuple[Tensor, Ranked]] = []
    for similarity, asked in model.by_group(groups, len(queries)):
        chosen = similarity if rows is None else similarity.rows(rows)
        whole = log_prior is not None or not model.weighs_by_mass
        whole = whole or (similarity.compares_patterns and holds_nan(stored, queries))
        row_bytes = 4 * max(1, len(stored)) * stored.element_size()
        size = max(1, TEMPORARY_BYTES // row_bytes) if whole else MOST_QUERIES
        for part in blocks(len(asked), 1, size):
            ranking = Ranking(model, len(asked[part]), k, queries)
            for scores, columns in _scores(chosen, stored, queries[asked[part]], whole, k):
                weighed = scores if log_prior is None else with_prior(scores, log_prior[ids], model.separation)
                ranking.update(weighed, ids[columns], scores)
            found.append((asked[part], ranking.ranked()))
    return gathered(found) if found else Ranking(model, 0, k, queries).ranked()


def with_prior(scores: Scores, log_prior: Tensor, separation: Separation) -> Scores:
    """Scores (b, n) of all patterns, and their prior (n,)."""
    # A query that nothing is known about gets the prior, which would be lost beside so low a number.
    unknown = (scores == lowest(scores.dtype)).all(-1, keepdim=True)
    # The separation multiplies scores by its beta, and must not multiply the prior.
    return scores.masked_fill(unknown, 0) + log_prior / separation.beta


def _scores(
    similarity: Similarity, patterns: Patterns, queries: Queries, whole: bool, k: int
) -> Iterator[tuple[Scores, slice]]:
    """The scores of the queries with blocks of the patterns, or with all of them at once."""
    column = 4 * len(queries) * patterns.element_size()
    budget = len(patterns) * column if whole else max(BLOCK_BYTES, COLUMNS_A_ROW * k * column)
    for columns in blocks(len(patterns), column, budget):
        is_all = columns.stop - columns.start == len(patterns)  # the tensor itself, whose blocks may be packed
        yield (
            (similarity(patterns, queries) if is_all else similarity.rows(columns)(patterns[columns], queries)),
            columns,
        )
