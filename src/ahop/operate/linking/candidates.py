"""Ask a memory for the candidates of each row of a table."""

import torch

from ahop._core.blocks import blocks
from ahop._core.missing import holds_nan
from ahop._core.typing import Queries
from ahop.errors import UnsupportedError
from ahop.memory.memory import AssociativeMemory
from ahop.operate.linking.edges import Edges
from ahop.scale.indexes.candidates import lift_for_candidates
from ahop.scale.indexes.engines.exact import ExactEngine
from ahop.scale.indexes.reranking import Index, lifted

# Above so many pairs of rows an index is built first, which looks at each pair by one matrix product.
MANY_PAIRS = 100_000_000
CANDIDATE_TOLERANCE = 0.05


def edges_of(
    memory: AssociativeMemory | Index, queries: Queries, candidates: int, groups: list[str] | None = None
) -> Edges:
    """The best candidates of each query, with a calibrated posterior, and how likely it has no origin."""
    if isinstance(memory, AssociativeMemory) and len(memory) * len(queries) > MANY_PAIRS:
        memory = _indexed(memory, queries, candidates)
    stored = memory.memory if isinstance(memory, Index) else memory
    rows, count = len(stored), min(candidates, len(stored))
    ids, posterior, unknown = [], [], []
    row_bytes = count * queries.shape[1] * queries.element_size()  # answers bring their patterns along
    for part in blocks(len(queries), row_bytes):
        answer = memory.recall(queries[part], count, groups=None if groups is None else groups[part])
        ids.append(answer.indices.cpu())
        posterior.append(answer.posterior.detach().cpu())
        unknown += [] if answer.unknown is None else [answer.unknown.detach().cpu()]
    if not ids:
        ids, posterior = [torch.empty(0, count, dtype=torch.long)], [torch.empty(0, count)]
    prior = 0.0 if stored.detector is None else stored.detector.log_prior_odds
    return Edges.of(torch.cat(ids), torch.cat(posterior), torch.cat(unknown) if unknown else None, prior, rows)


def _indexed(memory: AssociativeMemory, queries: Queries, candidates: int) -> AssociativeMemory | Index:
    """An exhaustive index of the memory; the memory itself, if its similarity cannot be lifted."""
    stored, has_gaps = memory.modulation(memory.patterns), holds_nan(memory.patterns, queries)
    try:
        lifting = lift_for_candidates(memory.similarity, stored, queries, tolerance=CANDIDATE_TOLERANCE, gaps=has_gaps)
    except UnsupportedError:
        return memory
    return Index(memory, lifting, ExactEngine(lifted(memory, lifting)), candidates)
