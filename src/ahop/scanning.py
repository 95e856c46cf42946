"""The best few of very many: scores are looked at block by block and forgotten."""

from dataclasses import dataclass

import torch
from torch import Tensor

from ahop._blocks import blocks
from ahop._tensors import saturate
from ahop._typing import Patterns, Queries, Scores
from ahop.separations.softmax import Softmax, below_top, has_evidence
from ahop.similarities.base import Similarity

# Scores of one block and what is made of them: small enough to stay in the caches of most machines.
SCAN_BYTES = 8 * 2**20


@dataclass(frozen=True)
class Best:
    """Rows of the patterns (b, k), best first, and their share of the softmax over all patterns, (b, k)."""

    indices: Tensor
    posterior: Tensor


def scan(similarity: Similarity, separation: Softmax, patterns: Patterns, queries: Queries, k: int) -> Best:
    """The same as a softmax of all scores and its k largest, without ever holding all scores."""
    if similarity.compares_patterns:
        row = 4 * len(patterns) * patterns.element_size()
        parts = [
            _best_of_all(similarity(patterns, queries[rows]), separation, k)
            for rows in blocks(len(queries), row, SCAN_BYTES)
        ] or [_best_of_all(similarity(patterns, queries), separation, k)]
        return Best(torch.cat([part.indices for part in parts]), torch.cat([part.posterior for part in parts]))
    scores: list[Tensor] = []
    indices: list[Tensor] = []
    tops: list[Tensor] = []
    masses: list[Tensor] = []
    counts = torch.zeros(len(queries), dtype=torch.long, device=queries.device)
    for columns in blocks(len(patterns), 4 * len(queries) * patterns.element_size(), SCAN_BYTES):
        is_all = len(patterns) == columns.stop - columns.start  # the tensor itself, whose blocks may be packed
        part = similarity(patterns, queries) if is_all else similarity.rows(columns)(patterns[columns], queries)
        best = part.topk(min(k, part.shape[-1]), dim=-1)
        below, top = below_top(part)
        tops.append(top)
        if separation.floor:
            counts += has_evidence(part).sum(-1)
        masses.append(torch.logsumexp(separation.beta * below, dim=-1, keepdim=True))
        scores, indices = [*scores, best.values], [*indices, best.indices + columns.start]
        if len(scores) > 1:
            # Blocks in their order, and a stable sort: of equals the first row is kept, as always.
            joined = torch.cat(scores, dim=-1).sort(dim=-1, descending=True, stable=True)
            rows = torch.cat(indices, dim=-1).gather(-1, joined.indices)
            scores, indices = [joined.values[:, :k]], [rows[:, :k]]
    # All relative to the best of all: what the blocks hold, and what the chosen are.
    below, top = below_top(torch.cat(tops, dim=-1))
    mass = torch.logsumexp(separation.beta * below + torch.cat(masses, dim=-1), dim=-1, keepdim=True)
    shares = (separation.beta * saturate(scores[0] - top) - mass).exp()
    return Best(indices[0], separation.floored_best(shares, scores[0], counts, len(patterns)))


def _best_of_all(scores: Scores, separation: Softmax, k: int) -> Best:
    best = scores.topk(k, dim=-1).indices
    return Best(best, separation(scores).gather(-1, best))
