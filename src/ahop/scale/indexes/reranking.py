"""Candidates from an engine, their exact scores, and the mass of all other rows."""

from math import log
from typing import final
from weakref import WeakKeyDictionary

import torch
from torch import Tensor
from torch.nn.functional import pad

from ahop._core.blocks import blocks
from ahop._core.checks import check_kind
from ahop._core.free_memory import check_free_memory
from ahop._core.overlap import shared_dimensions
from ahop._core.prepared import have_gaps, prepared
from ahop._core.tensors import best_first, lowest
from ahop._core.typing import Queries, Scores
from ahop.errors import InvalidValueError
from ahop.memory.memory import AssociativeMemory
from ahop.memory.paired import paired_scores
from ahop.memory.ranking import Ranked
from ahop.memory.scoring import with_prior
from ahop.memory.unknown import Evidence
from ahop.scale.indexes.engines.base import Engine, Found
from ahop.scale.indexes.tail_mass import log_tail_mass
from ahop.scale.liftings.base import Lifting
from ahop.separations.softmax import Softmax, has_evidence
from ahop.similarities.aligned import AlignedSimilarity
from ahop.similarities.base import Similarity

# Rows that stand for all that are no candidates, and of these, those that tell lifted from exact scores.
DRAWN, COMPARED = 512, 16
# Filters that leave fewer rows than this many times the candidates are answered by looking at all that are left.
FEW = 32


@final
class Reranking:
    """Candidates from an engine, reranked by the exact scores of a memory, with the mass of all other rows.

    Args:
        memory: whose similarity decides.
        lifting: of that similarity, or of another that brings the candidates.
        engine: of the lifted patterns; see `lifted`.
        candidates: how many are reranked for each query.
        removed: (n,) flags of the rows that stand for no others.
    """

    def __init__(
        self, memory: AssociativeMemory, lifting: Lifting, engine: Engine, candidates: int, removed: Tensor
    ) -> None:
        self.memory, self.candidates = memory, candidates
        self.lifting, self.engine = check_kind("lifting", lifting, Lifting), check_kind("engine", engine, Engine)
        if len(engine) != len(memory):
            raise InvalidValueError(f"`engine` must hold the {len(memory)} rows of the memory; got {len(engine)}.")
        self._shares_lifting: WeakKeyDictionary[Similarity, bool] = WeakKeyDictionary()
        self.draw(removed)

    def add(self, rows: Tensor) -> None:
        """Take rows (m,) of the memory that are new to it."""
        self.engine.add(lifted(self.memory, self.lifting, rows))

    def draw(self, removed: Tensor) -> None:
        """Take the patterns as the similarity sees them, and the rows that stand for all others, the same each time."""
        self._stored = self.memory.modulation(self.memory.patterns).detach()
        self._prepared = prepared(self._stored)
        rows = (~removed).nonzero().squeeze(-1)
        if len(rows) > DRAWN:
            generator = torch.Generator().manual_seed(0)
            rows = rows[torch.randperm(len(rows), generator=generator)[:DRAWN].sort().values]
        self._drawn = rows
        self._drawn_vectors = lifted(self.memory, self.lifting, rows)

    def worst(self, similarity: Similarity, queries: Queries, allowed: Tensor | None) -> Tensor | None:
        """The worst scores of the rows that stand for all others; of all that pass a filter, if these are as few."""
        if not similarity.compares_patterns or not have_gaps(self._stored, queries):
            return None
        rows = self._drawn
        if allowed is not None:
            rows = rows[allowed[rows]] if int(allowed.sum()) > DRAWN else allowed.nonzero().squeeze(-1)
        return similarity.rows(rows).worst_scores(self._stored[rows], queries)

    def search(
        self, queries: Queries, similarity: Similarity, wanted: int, allowed: Tensor | None, worst: Tensor | None
    ) -> Ranked:
        """The best `wanted` rows of each query.

        Args:
            similarity: that of the memory, or of a group.
            allowed: (n,) flags of the rows that may be answered, at least one; all if None.
            worst: (b, m) the worst scores of each query, where these rows are part of more.
        """
        model, count = self.memory.model, len(self._stored) if allowed is None else int(allowed.sum())
        beta, (asked, is_whole) = model.beta, self._asked(queries, similarity)
        if allowed is not None and is_few(count, wanted):
            found = Found(allowed.nonzero().mT.expand(len(queries), -1), queries.new_zeros(len(queries), count))
        else:
            sees_all = self.engine.is_exhaustive and is_whole
            found = self.engine.search(asked, wanted, allowed, beta if sees_all else None)
        has_floor = isinstance(model.separation, Softmax) and model.separation.floor > 0
        counts_known = has_floor and have_gaps(self._stored, queries)  # a floor is shared by rows that share anything
        needs_drawn = found.log_mass is None or model.detector is not None or counts_known
        step = max(1, len(self._drawn) // COMPARED) if is_whole else 1
        some = slice(None, None if needs_drawn else 0, step)
        compared = self._drawn[some]
        worst = self.worst(similarity, queries, allowed) if worst is None else worst
        looked_at = torch.cat([found.indices, compared.expand(len(queries), -1)], dim=-1)
        plain = self._exact(queries, similarity, looked_at, worst)
        scores = self._with_prior(plain, looked_at)
        number = found.indices.shape[1]
        exact, of_compared = scores[:, :number], scores[:, number:]
        possible = self._possible(allowed, count)
        known, evidence = torch.full((len(queries),), possible), None
        if needs_drawn:
            drawn = of_compared
            if is_whole:
                drawn = asked @ self._drawn_vectors.mT
                drawn += (of_compared - drawn[:, some]).mean(-1, keepdim=True)  # what lifting leaves out
                if not similarity.missing_is_evidence and have_gaps(self._stored, queries):
                    shared = shared_dimensions(self._stored[self._drawn], queries)
                    drawn = drawn.masked_fill(shared == 0, lowest(drawn.dtype))
            known = (count * has_evidence(of_compared).double().mean(-1)).round().long()
            known = known.clamp_min(1).where(has_evidence(exact).any(-1), 0)
            rest = self._tail(exact, drawn, found.indices, allowed, count, beta)
            if model.detector is not None:
                if self.memory.log_prior is not None:  # a detector knows nothing of a prior
                    drawn = drawn - self._with_prior(torch.zeros_like(drawn), self._drawn)
                evidence = self._evidence(plain[:, :number], drawn, found.indices, allowed, count)
        if number == count:  # there are no others
            rest = torch.full_like(exact[:, 0], -torch.inf)
        elif found.log_mass is not None:
            rest = _rest(found, exact, beta)
        rows = found.indices.sort(dim=-1)  # of equals the first row, in whatever order the engine brings them
        values, places = best_first(exact.gather(-1, rows.indices), min(wanted, number))
        ids = rows.values.gather(-1, places).masked_fill(torch.isneginf(values), -1)
        top = values[:, :1]
        others = torch.logsumexp(beta * (exact - top).double(), -1)
        log_mass = torch.logaddexp(others, rest.double() - beta * top.squeeze(-1).double())
        log_mass = log_mass.where(has_evidence(exact).any(-1), log(count))  # else all rows are alike
        short = wanted - ids.shape[1]
        ids, values = pad(ids, (0, short), value=-1), pad(values, (0, short), value=-torch.inf)
        return Ranked(ids, values, log_mass, known, possible, evidence)

    def _asked(self, queries: Queries, similarity: Similarity) -> tuple[Tensor, bool]:
        """Queries as the engine takes them, and whether its scores are those of the similarity.

        Groups that differ by an offset and a gain share the lifting of all; for those with a similarity of their own,
        it brings the candidates.
        """
        is_whole = similarity is self.memory.similarity
        if not is_whole and isinstance(similarity, AlignedSimilarity):
            queries = similarity.aligned(queries)
            if similarity not in self._shares_lifting:  # compares every number of both: once for each group
                self._shares_lifting[similarity] = _are_same(similarity.base, self.memory.similarity)
            is_whole = self._shares_lifting[similarity]
        asked = lifted_queries(self.memory, self.lifting, queries)
        return asked, is_whole and self.lifting.is_whole

    def _exact(self, queries: Queries, similarity: Similarity, indices: Tensor, worst: Tensor | None) -> Scores:
        """The memory's scores of each query's candidates, (b, c), without the prior."""
        scores = paired_scores(similarity, self._stored, indices.clamp_min(0), queries, worst)
        return scores.masked_fill(indices < 0, -torch.inf)

    def _possible(self, allowed: Tensor | None, count: int) -> int:
        """Number of these rows that a prior does not rule out."""
        prior = self.memory.log_prior
        if prior is None:
            return count
        return int(torch.isfinite(prior if allowed is None else prior[allowed]).sum())

    def _with_prior(self, scores: Scores, indices: Tensor) -> Scores:
        """Scores of these rows and their prior."""
        prior = self.memory.log_prior
        return (
            scores
            if prior is None
            else with_prior(scores, prior[indices.clamp_min(0)], self.memory.model.beta_of_prior)
        )

    def _evidence(
        self, exact: Tensor, drawn: Tensor, candidates: Tensor, allowed: Tensor | None, count: int
    ) -> Evidence:
        """Evidence for a detector: of all rows where all are candidates, else estimated from the drawn ones."""
        if candidates.shape[1] == count:
            return Evidence.of(exact)
        stand = drawn if allowed is None else drawn.masked_fill(~allowed[self._drawn], -torch.inf)
        rest = self._tail(exact, drawn, candidates, allowed, count, 1.0)
        return Evidence.of_some(exact, rest, stand, count)

    def _tail(
        self, exact: Tensor, drawn: Tensor, candidates: Tensor, allowed: Tensor | None, count: int, beta: float
    ) -> Tensor:
        """The logarithm of the mass that is no candidate, (b,), where scores are sharpened by `beta`."""
        free = drawn if allowed is None else drawn.masked_fill(~allowed[self._drawn], -torch.inf)
        places = torch.searchsorted(self._drawn, candidates.contiguous()).clamp_max(len(self._drawn) - 1)
        taken = torch.zeros_like(free).scatter_add_(-1, places, (self._drawn[places] == candidates).to(free))
        free = free.masked_fill(taken > 0, -torch.inf)
        last = exact.masked_fill(torch.isneginf(exact), torch.inf).amin(-1)  # the last candidate that there is
        number = int((candidates >= 0).sum(-1).max()) if candidates.numel() else 0
        return log_tail_mass(beta * last, max(1, number), beta * free, max(0, count - number))


def is_few(count: int, wanted: int) -> bool:
    """True if so few rows are left that looking at all of them costs less than a search."""
    return count <= FEW * wanted


def _are_same(first: Similarity, second: Similarity) -> bool:
    """True if two similarities are made alike of the same numbers; once loaded from a file they are no one object."""
    if first is second:
        return True
    ours, theirs = first.state_dict(), second.state_dict()
    if repr(first) != repr(second) or ours.keys() != theirs.keys():
        return False
    return all(torch.equal(value, theirs[name]) for name, value in ours.items())


def _rest(found: Found, exact: Scores, beta: float) -> Tensor:
    """The logarithm of the mass that is no candidate, where all of it was seen, in units of the exact scores."""
    assert found.log_mass is not None
    chosen = torch.logsumexp(beta * found.scores, -1) - found.log_mass
    left = torch.log(-torch.expm1(chosen.clamp_max(-1e-6)))
    shift = (exact - found.scores).nan_to_num(0, 0, 0).sum(-1) / (found.indices >= 0).sum(-1).clamp_min(1)
    return found.log_mass + left + beta * shift


def lifted_queries(memory: AssociativeMemory, lifting: Lifting, queries: Queries) -> Tensor:
    """Queries as an engine of `lifted` patterns takes them."""
    asked = lifting.lift_queries(queries)
    return asked if memory.log_prior is None else pad(asked, (0, 1), value=1.0)


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
        vectors[:, -1] = (finite if rows is None else finite[rows]) / memory.model.beta_of_prior
    return vectors
