"""Rank patterns in memory, with scores in blocks."""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from ahop._core.best_rows import BestRows
from ahop._core.blocks import TEMPORARY_BYTES, blocks
from ahop._core.prepared import have_gaps
from ahop._core.tensors import lowest, saturate
from ahop._core.typing import AnyQueries, Patterns, Scores
from ahop.memory.model import Model
from ahop.memory.ranking import Ranked, Ranking, gathered, stacked
from ahop.separations.base import Separation
from ahop.separations.softmax import Softmax, has_evidence
from ahop.similarities.base import Similarity

# Scores of one block and what is made of them: small enough to stay in the caches of most machines.
BLOCK_BYTES = 8 * 2**20
# Queries that are ranked together: more would leave few columns to a block.
MOST_QUERIES = 1024
# Columns for each row that is kept: sorting the best of a block costs as much as looking at so many.
COLUMNS_A_ROW = 32
# A query is never surer than this that its origin is stored, or that it is not.
LEAST_DOUBT = 1e-7


@torch.no_grad()
def rank(
    model: Model,
    patterns: Patterns,
    queries: AnyQueries,
    k: int,
    *,
    groups: Sequence[object] | None = None,
    rows: Tensor | None = None,
    log_prior: Tensor | None = None,
    worst: Tensor | None = None,
) -> Ranked:
    """The k best rows of each query.

    Args:
        patterns: modulated.
        groups: where each query comes from; None if nobody knows.
        rows: (m,) the rows that may be answered; all if None.
        log_prior: (n,) how often each pattern is the origin.
        worst: (b, m) the worst scores of each query, where these patterns are part of more; see `worst_scores`.
    """
    stored, ids = patterns, torch.arange(len(patterns), device=patterns.device)
    if rows is not None:
        stored, ids = patterns[rows], rows
    found: list[tuple[Tensor, Ranked]] = []
    for similarity, asked in model.by_group(groups, len(queries)):
        chosen = similarity if rows is None else similarity.rows(rows)
        whole = log_prior is not None or not model.weighs_by_mass
        whole = whole or (worst is None and similarity.compares_patterns and have_gaps(stored, queries))
        row_bytes = 4 * max(1, len(stored)) * stored.element_size()
        size = max(1, TEMPORARY_BYTES // row_bytes) if whole else MOST_QUERIES
        for part in blocks(len(asked), 1, size):
            ranking = Ranking(model, len(asked[part]), k, queries)
            settled = chosen if worst is None else chosen.with_worst(worst[asked[part], : chosen.worst_count])
            for scores, columns in _scores(settled, stored, queries[asked[part]], whole, k):
                if log_prior is None:
                    ranking.update(scores, ids[columns])
                else:
                    prior = log_prior[ids]
                    ranking.update(
                        with_prior(scores, prior, model.beta_of_prior), ids, without_impossible(scores, prior)
                    )
            found.append((asked[part], ranking.ranked()))
    return gathered(found) if found else Ranking(model, 0, k, queries).ranked()


@torch.no_grad()
def nearest(similarity: Similarity, patterns: Patterns, queries: AnyQueries, k: int) -> Tensor:
    """The rows (b, k) of the patterns with the best scores, for whom nothing else matters; -1 where there are no more.

    The same rows as by `rank`, which weighs all scores besides.
    """
    ids, found = torch.arange(len(patterns), device=patterns.device), queries.new_empty(len(queries), k).long()
    whole, has_gap = similarity.compares_patterns and have_gaps(patterns, queries), queries.isnan().any(-1)
    for asked in ((~has_gap).nonzero().squeeze(-1), has_gap.nonzero().squeeze(-1)):  # those without are faster alone
        for part in blocks(len(asked), 1, MOST_QUERIES):
            best = BestRows(len(asked[part]), k, queries)
            for scores, columns in _scores(similarity, patterns, queries[asked[part]], whole, k):
                best.update(scores, scores.amax(-1), ids[columns])
            found[asked[part]] = best.padded()[0]
    return found


@torch.no_grad()
def rank_together(
    model: Model,
    patterns: Patterns,
    queries: AnyQueries,
    same: Tensor,
    k: int,
    *,
    groups: Sequence[object] | None = None,
    rows: Tensor | None = None,
    log_prior: Tensor | None = None,
) -> tuple[Ranked, Tensor | None]:
    r"""The k best rows of queries that have their origin in common, by $\sum_q \log p(\xi \mid x_q)$ over all rows.

    A floor says that a query may be one of those whose scores say nothing: that is so for each by itself, so each has
    its floor before they are added. A prior counts once.

    Args:
        same: (b,) from 0 on, the number of the origin that each query has in common with others.
        groups, rows, log_prior: as for `rank`.

    Returns:
        What was found for each number, and how likely its origin is unknown, where there is a detector: the odds that
        each query adds are multiplied.
    """
    stored, ids = patterns, torch.arange(len(patterns), device=patterns.device)
    if rows is not None:
        stored, ids = patterns[rows], rows
    count = int(same.max()) + 1 if len(same) else 0
    odds = torch.zeros(count, dtype=torch.float64, device=queries.device)
    by_group, parts = model.by_group(groups, len(queries)), []
    detector, plain = model.detector, without_floor(model)
    for part in blocks(count, 32 * max(1, len(stored))):
        total = torch.zeros(part.stop - part.start, len(stored), dtype=torch.float64, device=queries.device)
        says_anything = torch.zeros(len(total), dtype=torch.bool, device=queries.device)
        for similarity, asked in by_group if len(stored) else ():
            chosen = similarity if rows is None else similarity.rows(rows)
            own = asked[(same[asked] >= part.start) & (same[asked] < part.stop)]
            for some in blocks(len(own), 32 * max(1, len(stored))):
                scores, place = chosen(stored, queries[own[some]]), same[own[some]]
                knows = has_evidence(scores).any(-1)
                added = _as_evidence(scores, model.separation).double().where(knows.unsqueeze(-1), 0)
                total.index_add_(0, place - part.start, added)
                says_anything[place[knows] - part.start] = True
                if detector is not None:
                    seen = scores if log_prior is None else without_impossible(scores, log_prior[ids])
                    odds.index_add_(
                        0, place, torch.logit(detector(seen).double(), eps=LEAST_DOUBT) - detector.log_prior_odds
                    )
        total = total.where(says_anything.unsqueeze(-1), lowest(queries.dtype))
        scores = saturate(total, queries.dtype)
        ranking = Ranking(plain, len(scores), k, queries)
        if len(stored):
            ranking.update(
                scores if log_prior is None else with_prior(scores, log_prior[ids], model.beta_of_prior), ids
            )
        parts.append(ranking.ranked())
    ranked = stacked(parts) if parts else Ranking(plain, 0, k, queries).ranked()
    if not len(stored):
        odds += torch.inf  # what comes from nowhere else is unknown
    return ranked, None if detector is None else torch.sigmoid(detector.log_prior_odds + odds).to(queries)


def without_floor(model: Model) -> Model:
    """Drop floor and detector, to weigh sums of evidence: each query has had its floor and its chance to be unknown."""
    is_floored = isinstance(model.separation, Softmax) and model.separation.floor > 0
    return model.replaced(detector=None, separation=Softmax(model.beta) if is_floored else model.separation)


def _as_evidence(scores: Scores, separation: Separation) -> Scores:
    """Scores that may be added: with a floor they end at what the floor leaves."""
    if not isinstance(separation, Softmax) or not separation.floor:
        return scores
    return separation(scores).log().clamp_min(lowest(scores.dtype)) / separation.beta


def with_prior(scores: Scores, log_prior: Tensor, beta: float) -> Scores:
    """Scores (b, n) of all patterns, or of the best few, and their prior (n,) or (b, n).

    Args:
        beta: of those who read these scores; it must not multiply the prior.
    """
    # A query that nothing is known about gets the prior, which would be lost beside so low a number.
    unknown = (scores <= lowest(scores.dtype)).all(-1, keepdim=True) & (scores > -torch.inf)
    return scores.masked_fill(unknown, 0) + log_prior / beta


def without_impossible(scores: Scores, log_prior: Tensor) -> Scores:
    """The scores that a detector sees: a pattern whose prior is zero is as good as not stored."""
    return scores.masked_fill(torch.isneginf(log_prior), -torch.inf)


@torch.no_grad()
def settled(model: Model, patterns: Patterns, queries: AnyQueries, rows: Tensor | None = None) -> Model:
    """The model for these queries alone, whose scores depend on no other pattern; itself where that is so anyway.

    Args:
        rows: (m,) those of the patterns that may be answered; all if None.
    """
    similarity = model.similarity
    if not similarity.compares_patterns or not have_gaps(patterns, queries):
        return model
    stored, chosen = (patterns, similarity) if rows is None else (patterns[rows], similarity.rows(rows))
    return model.replaced(similarity=similarity.with_worst(worst_among(chosen, stored, queries)))


@torch.no_grad()
def worst_among(similarity: Similarity, patterns: Patterns, queries: AnyQueries) -> Tensor:
    """The worst scores (b, m) among all patterns, block by block; see `Similarity.worst_scores`."""
    worst = queries.new_full((len(queries), similarity.worst_count), torch.inf)
    for part in blocks(len(patterns), 16 * max(1, len(queries)), TEMPORARY_BYTES):
        found = similarity.rows(part).worst_scores(patterns[part], queries)
        worst = torch.minimum(worst, found)
    return worst


def _scores(
    similarity: Similarity, patterns: Patterns, queries: AnyQueries, whole: bool, k: int
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
