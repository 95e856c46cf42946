"""Candidates from an engine, then the exact similarity, then probabilities that count what was not looked at."""

from collections.abc import Mapping
from copy import copy
from typing import Any, final, overload

import torch
from numpy.typing import NDArray
from torch import Tensor

from ahop._blocks import blocks
from ahop._checks import as_queries, as_rows, check_count, check_kind
from ahop._free_memory import check_free_memory
from ahop._tensors import distinct
from ahop._typing import Entries, NotTensor, Queries, RowsLike, Scores
from ahop.errors import InvalidValueError
from ahop.indexes.engines.base import Background, Engine, Found, stacked
from ahop.indexes.merging import best_of, posterior_of, sharpness
from ahop.indexes.metadata import Metadata, Where
from ahop.indexes.tail_mass import log_tail_mass
from ahop.liftings.base import Lifting
from ahop.likelihood import EvidenceSimilarity, LikelihoodSimilarity
from ahop.memory import AssociativeMemory
from ahop.recaller import Recall, in_kind_of, labels_at
from ahop.similarities.additive import AdditiveSimilarity
from ahop.similarities.aligned import AlignedSimilarity
from ahop.similarities.base import Similarity
from ahop.similarities.pooled import PooledSimilarity
from ahop.similarities.transformed import TransformedSimilarity
from ahop.variants.base import FactorizedVariant

# Rows that stand for all that are no candidates, and of these, those that tell lifted from exact scores.
DRAWN, COMPARED = 512, 16
# Queries answered at a time: what is drawn and what is reranked stays small.
BATCH = 512
# Filters that leave fewer rows than this many times the candidates are answered by looking at all of them.
FEW = 32


@final
class Index:
    """The answers of a memory, found by an engine.

    Rows keep their numbers: those that are removed are never answered again, and their numbers not given anew.

    Args:
        memory: whose similarity decides; it is copied, its patterns are shared.
        lifting: of that similarity, or of another that brings the candidates.
        engine: of the lifted patterns; see `lifted`.
        candidates: how many are reranked for each query.
        metadata: columns to filter by, one entry for each row.
        curve: what was measured when the index was calibrated.
    """

    def __init__(
        self,
        memory: AssociativeMemory,
        lifting: Lifting,
        engine: Engine,
        candidates: int = 100,
        metadata: Mapping[str, Any] | None = None,
        curve: tuple[Any, ...] = (),
    ) -> None:
        self.memory = check_kind("memory", memory, AssociativeMemory).copy()
        self.lifting, self.engine = check_kind("lifting", lifting, Lifting), check_kind("engine", engine, Engine)
        self.candidates, self.curve = check_count("candidates", candidates), curve
        if len(engine) != len(memory):
            raise InvalidValueError(f"`engine` must hold the {len(memory)} rows of the memory; got {len(engine)}.")
        self.metadata = Metadata(metadata, len(memory))
        self.removed = torch.zeros(len(memory), dtype=torch.bool)
        if memory.log_prior is not None:
            self.removed |= torch.isneginf(memory.log_prior).cpu()
        self._stored = memory.modulation(memory.patterns).detach()
        self._draw()

    def __len__(self) -> int:
        return int((~self.removed).sum())

    @overload
    def recall(self, queries: Tensor, k: int = 1, where: Where | None = None) -> Recall[Tensor]: ...
    @overload
    def recall(self, queries: NotTensor, k: int = 1, where: Where | None = None) -> Recall[NDArray[Any]]: ...
    @torch.no_grad()
    def recall(self, queries: RowsLike, k: int = 1, where: Where | None = None) -> Recall[Any]:
        """The k stored patterns that each query most likely came from, as a memory answers.

        Args:
            where: columns of the metadata and the values they may have, or which rows, as flags or numbers: only these
                are answered, and the posterior is among them. Rows beyond those there are have number -1.
        """
        checked = as_queries(queries, self.memory.patterns, dimensions=self.memory.dimensions)
        k = min(check_count("k", k), len(self.removed))
        found = self._search(checked, max(k, self.candidates), where)
        indices, posterior, unknown = posterior_of(found, self.memory, k)
        patterns = self.memory.patterns[indices].masked_fill((indices < 0).unsqueeze(-1), torch.nan)
        labels = labels_at(self.memory.labels, indices)
        return in_kind_of(queries, Recall(indices, posterior, patterns, unknown, labels))

    @torch.no_grad()
    def search(self, queries: RowsLike, k: int, where: Where | None = None) -> Found:
        """The k best rows of each query with their exact scores, and what all rows weigh: parts of a larger answer."""
        checked = as_queries(queries, self.memory.patterns, dimensions=self.memory.dimensions)
        k = min(check_count("k", k), len(self.removed))
        return best_of(self._search(checked, max(k, self.candidates), where), k)

    def add(
        self, patterns: RowsLike, metadata: Mapping[str, Any] | None = None, labels: Entries | None = None
    ) -> Tensor:
        """Store more patterns behind the others; answers their rows.

        Args:
            metadata: one entry for each of them, if the index has metadata.
            labels: the same, if the memory has labels.
        """
        more = as_queries(patterns, self.memory.patterns, "patterns", self.memory.dimensions)
        together = copy(self.metadata)  # ours stays as it is if the memory refuses
        together.add(metadata, len(more))
        rows, self.metadata = self.memory.add(patterns, labels), together
        if len(rows):
            self.engine.add(lifted(self.memory, self.lifting, rows))
            self.removed = torch.cat([self.removed, torch.zeros(len(rows), dtype=torch.bool)])
            self._stored = self.memory.modulation(self.memory.patterns).detach()
            self._draw()
        return rows

    def remove(self, indices: Entries) -> None:
        """Never answer these rows again. Where many are gone, build the index anew."""
        gone = as_rows("indices", indices, len(self.removed)).flatten()
        removed = self.removed.index_fill(0, gone.cpu(), True)
        if bool(removed.all()):
            raise InvalidValueError("`indices` names every stored pattern; an index keeps at least one.")
        self.removed = removed
        self._draw()

    def _draw(self) -> None:
        """The rows that stand for all others, the same each time."""
        rows = (~self.removed).nonzero().squeeze(-1)
        if len(rows) > DRAWN:
            generator = torch.Generator().manual_seed(0)
            rows = rows[torch.randperm(len(rows), generator=generator)[:DRAWN].sort().values]
        self._drawn = rows
        self._drawn_vectors = lifted(self.memory, self.lifting, rows)

    def _search(self, queries: Queries, wanted: int, where: Where | None) -> Found:
        """The candidates of each query with their exact scores, and what all rows weigh."""
        allowed = ~self.removed if bool(self.removed.any()) else None
        if where is not None:
            asked_for = self.metadata.allowed(where, len(self.removed))
            allowed = asked_for if allowed is None else asked_for & allowed
        parts = [self._search_few(queries[rows], wanted, allowed) for rows in blocks(len(queries), 1, BATCH)]
        return stacked(parts) if parts else self._nothing(queries, min(wanted, len(self.removed)))

    def _nothing(self, queries: Queries, wanted: int) -> Found:
        """No queries, or no rows that may be answered."""
        scores = queries.new_full((len(queries), wanted), -torch.inf)
        none, rest = queries.new_zeros(len(queries)), queries.new_full((len(queries),), -torch.inf)
        background = None if self.memory.detector is None else Background(rest, none, none, 0)
        return Found(torch.full_like(scores, -1, dtype=torch.long), scores, rest, background)

    def _search_few(self, queries: Queries, wanted: int, allowed: Tensor | None) -> Found:
        beta, asked = sharpness(self.memory), self._asked(queries)
        count = len(self.removed) if allowed is None else int(allowed.sum())
        if not count:
            return self._nothing(queries, wanted)
        if allowed is not None and count <= FEW * wanted:
            found = Found(allowed.nonzero().mT.expand(len(queries), -1), queries.new_zeros(len(queries), count))
        else:
            sees_all = self.engine.is_exhaustive and self.lifting.is_whole
            found = self.engine.search(asked, wanted, allowed, beta if sees_all else None)
        needs_drawn = found.log_mass is None or self.memory.detector is not None
        step = max(1, len(self._drawn) // COMPARED) if self.lifting.is_whole else 1
        some = slice(None, None if needs_drawn else 0, step)
        compared = self._drawn[some]
        scores = self._exact(queries, torch.cat([found.indices, compared.expand(len(queries), -1)], dim=-1))
        exact, of_compared = scores[:, : found.indices.shape[1]], scores[:, found.indices.shape[1] :]
        background = None
        if needs_drawn:
            drawn = of_compared
            if self.lifting.is_whole:
                drawn = asked @ self._drawn_vectors.mT
                drawn += (of_compared - drawn[:, some]).mean(-1, keepdim=True)  # what lifting leaves out
            rest = self._outside(exact, drawn, found.indices, allowed, count, beta)
            if self.memory.detector is not None:
                plain = rest if beta == 1 else self._outside(exact, drawn, found.indices, allowed, count, 1.0)
                background = Background(plain, drawn.mean(-1), drawn.std(-1, correction=0), count)
        if found.log_mass is not None:
            rest = _rest(found, exact, beta)
        log_mass = torch.logaddexp(torch.logsumexp(beta * exact, -1), rest)
        return Found(found.indices, exact, log_mass, background, count)

    def _asked(self, queries: Queries) -> Tensor:
        asked = self.lifting.lift_queries(queries)
        return asked if self.memory.log_prior is None else torch.nn.functional.pad(asked, (0, 1), value=1.0)

    def _exact(self, queries: Queries, indices: Tensor) -> Scores:
        """The memory's scores of each query's candidates, (b, c)."""
        known = indices.clamp_min(0)
        row = 8 * indices.shape[1] * self._stored.shape[1] * self._stored.element_size()
        parts = [
            paired_scores(self.memory.similarity, self._stored, known[rows], queries[rows])
            for rows in blocks(len(queries), row)
        ]
        scores = torch.cat(parts) if parts else queries.new_empty(indices.shape)
        if self.memory.log_prior is not None:
            scores = scores + self.memory.log_prior[known] / self.memory.separation.beta
        return scores.masked_fill(indices < 0, -torch.inf)

    def _outside(
        self, exact: Tensor, drawn: Tensor, candidates: Tensor, allowed: Tensor | None, count: int, beta: float
    ) -> Tensor:
        """The logarithm of the mass that is no candidate, (b,)."""
        free = drawn if allowed is None else drawn.masked_fill(~allowed[self._drawn], -torch.inf)
        places = torch.searchsorted(self._drawn, candidates.contiguous()).clamp_max(len(self._drawn) - 1)
        taken = torch.zeros_like(free).scatter_add_(-1, places, (self._drawn[places] == candidates).to(free))
        free = free.masked_fill(taken > 0, -torch.inf)
        last = exact.masked_fill(torch.isneginf(exact), torch.inf).amin(-1)  # the last candidate that there is
        number = int((candidates >= 0).sum(-1).max()) if candidates.numel() else 0
        return log_tail_mass(beta * last, max(1, number), beta * free, max(0, count - number))


def _rest(found: Found, exact: Scores, beta: float) -> Tensor:
    """The logarithm of the mass that is no candidate, where all of it was seen, in units of the exact scores."""
    assert found.log_mass is not None
    chosen = torch.logsumexp(beta * found.scores, -1) - found.log_mass
    left = torch.log(-torch.expm1(chosen.clamp_max(-1e-6)))
    shift = (exact - found.scores).nan_to_num(0, 0, 0).sum(-1) / (found.indices >= 0).sum(-1).clamp_min(1)
    return found.log_mass + left + beta * shift


def lifted(memory: AssociativeMemory, lifting: Lifting, rows: Tensor | None = None) -> Tensor:
    """The stored patterns as vectors for an index, all or some rows; a prior is one more coordinate."""
    stored, prior = memory.modulation(memory.patterns).detach(), memory.log_prior
    count, first = len(stored) if rows is None else len(rows), lifting.lift_patterns(stored[:1])
    shape = count, first.shape[1] + (prior is not None)
    check_free_memory(count * shape[1] * first.element_size(), f"{count} lifted rows")
    vectors = first.new_empty(shape)
    # Longer than the patterns are, and made in several steps: a block at a time.
    for part in blocks(count, 4 * shape[1] * first.element_size()):
        some = stored[part if rows is None else rows[part]]
        vectors[part, : first.shape[1]] = lifting.lift_patterns(some)
    if prior is not None:
        known = prior > -torch.inf
        finite = prior.where(known, prior[known].min() if bool(known.any()) else 0)
        vectors[:, -1] = (finite if rows is None else finite[rows]) / memory.separation.beta
    return vectors


def paired_scores(similarity: Similarity, patterns: Tensor, rows: Tensor, queries: Tensor) -> Tensor:
    """The scores (b, c) of each query with rows of its own, (b, c)."""
    if isinstance(similarity, PooledSimilarity):
        return similarity.combined(paired_scores(part, patterns, rows, queries) for part in similarity.parts())
    if isinstance(similarity, AlignedSimilarity):
        return paired_scores(similarity.base, patterns, rows, similarity.aligned(queries))
    if isinstance(similarity, TransformedSimilarity) and similarity.rows(rows.flatten()[:1]) is similarity:
        chosen, places = distinct(rows)
        behind = similarity.transform(patterns[chosen]), similarity.transform(queries)
        return paired_scores(similarity.base, behind[0], places, behind[1])
    single = similarity.rows(rows[0]) if len(rows) else similarity
    if single is not similarity:  # it knows patterns one by one
        pairs = zip(rows, queries, strict=True)
        each = [similarity.rows(own)(patterns[own], query.unsqueeze(0)) for own, query in pairs]
        return torch.cat(each)
    variant = getattr(similarity, "variant", None)
    if isinstance(similarity, EvidenceSimilarity | LikelihoodSimilarity) and isinstance(variant, FactorizedVariant):
        return variant.paired_evidence(patterns, rows, queries)
    stored, asked = patterns[rows], queries.unsqueeze(1)
    if isinstance(similarity, AdditiveSimilarity):
        return similarity.per_dimension(stored, asked).sum(-1).squeeze(1)
    return similarity(stored, asked).squeeze(1)
