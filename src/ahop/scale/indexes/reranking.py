"""The index: candidates from an engine, exact scores, and posteriors that account for the other rows."""

from collections.abc import Mapping, Sequence
from copy import copy
from math import log
from typing import Any, final
from weakref import WeakKeyDictionary

import torch
from torch import Tensor
from torch.nn.functional import pad
from typing_extensions import override

from ahop._core.blocks import blocks
from ahop._core.checks import check_count, check_kind
from ahop._core.free_memory import check_free_memory
from ahop._core.html import facts
from ahop._core.inputs import as_queries, as_query, as_rows
from ahop._core.overlap import shared_dimensions
from ahop._core.prepared import have_gaps, prepared
from ahop._core.tensors import best_first, lowest
from ahop._core.typing import Entries, Queries, RowsLike, Scores
from ahop.errors import InvalidValueError
from ahop.memory.explaining import Compared, explain
from ahop.memory.explanation import Explanation
from ahop.memory.memory import AssociativeMemory
from ahop.memory.paired import paired_scores
from ahop.memory.ranking import Ranked, Ranking, gathered
from ahop.memory.recall import Recall
from ahop.memory.recaller import BaseRecaller, answers_of
from ahop.memory.scoring import with_prior
from ahop.memory.unknown import Evidence
from ahop.scale.indexes.engines.base import Engine, Found
from ahop.scale.indexes.metadata import Metadata, Where
from ahop.scale.indexes.tail_mass import log_tail_mass
from ahop.scale.liftings.base import Lifting
from ahop.separations.softmax import Softmax, has_evidence
from ahop.similarities.aligned import AlignedSimilarity
from ahop.similarities.base import Similarity

# Rows that stand for all that are no candidates, and of these, those that tell lifted from exact scores.
DRAWN, COMPARED = 512, 16
# Queries answered at a time: what is drawn and what is reranked stays small.
BATCH = 512
# Filters that leave fewer rows than this many times the candidates are answered by looking at all of them.
FEW = 32


@final
class Index(BaseRecaller[Where]):
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
        self._shares_lifting: WeakKeyDictionary[Similarity, bool] = WeakKeyDictionary()
        self._draw()

    def __len__(self) -> int:
        return int((~self.removed).sum())

    @property
    @override
    def columns(self) -> tuple[str, ...] | None:
        return self.memory.columns

    @property
    @override
    def dimensions(self) -> int:
        return self.memory.dimensions

    def _repr_html_(self) -> str:
        known = {
            "patterns": f"{len(self)} of {self.dimensions} dimensions",
            "engine": repr(self.engine),
            "similarity": type(self.memory.similarity).__name__,
            "candidates of a query": self.candidates,
            "columns to filter by": ", ".join(self.metadata.columns) or "none",
        }
        return facts("Index", known)

    def explain(self, query: RowsLike | Entries, *, against: object = None, group: object = None) -> Explanation:
        """Why this query is answered as it is, as `AssociativeMemory.explain` says; the answers are the index's own."""
        memory = self.memory
        asked = as_query(query, memory.patterns, memory.columns, memory.model.asked)
        model = memory.model.for_group(group)
        worst = self._worst(model.similarity, asked, None)
        ranked = self.search(asked, 2, groups=None if group is None else [group])
        compared = Compared.among(ranked, against, self._stored, memory.log_prior, memory.labels, memory.columns)
        if bool(self.removed[compared.rows.cpu()].any()):
            raise InvalidValueError(f"`against` must be a pattern that can be answered; {against!r} was removed.")
        if worst is not None:
            model = model.replaced(similarity=model.similarity.with_worst(worst))
        return explain(model, ranked, compared, asked)

    def search(
        self,
        queries: RowsLike,
        k: int,
        *,
        where: Where | None = None,
        groups: Sequence[object] | None = None,
        worst: Tensor | None = None,
    ) -> Ranked:
        """The k best rows of each query with their exact scores, and what all rows weigh: part of a larger answer.

        Args:
            worst: (b, m) the worst scores of each query among all rows of that larger answer; see
                `Similarity.worst_scores`. If None, those of the rows that stand for all others.
        """
        checked = as_queries(queries, self.memory.patterns, columns=self.memory.columns, asked=self._query_width)
        return self._search(checked, check_count("k", k), where, groups, worst)

    def add(
        self, patterns: RowsLike, metadata: Mapping[str, Any] | None = None, labels: Entries | None = None
    ) -> Tensor:
        """Store more patterns behind the others; returns their rows.

        Args:
            metadata: one entry for each of them, if the index has metadata.
            labels: the same, if the memory has labels.
        """
        more = as_queries(patterns, self.memory.patterns, "patterns", self.memory.columns)
        together = copy(self.metadata)  # ours stays as it is if the memory refuses
        together.add(metadata, len(more))
        rows, self.metadata = self.memory.add(patterns, labels), together
        if len(rows):
            self.engine.add(lifted(self.memory, self.lifting, rows))
            self.removed = torch.cat([self.removed, torch.zeros(len(rows), dtype=torch.bool)])
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

    @override
    def _like(self) -> Tensor:
        return self.memory.patterns

    @property
    @override
    def _query_width(self) -> int | None:
        return self.memory.model.asked

    @override
    def _recalled(
        self, queries: Queries, k: int, where: Where | None, groups: Sequence[object] | None
    ) -> Recall[Tensor]:
        memory, k = self.memory, min(k, len(self.removed))
        ranked = self._search(queries, max(k, self.candidates), where, groups)
        return answers_of(ranked, memory.model, k, memory.patterns, memory.labels)

    @torch.no_grad()
    def _search(
        self,
        checked: Queries,
        k: int,
        where: Where | None,
        groups: Sequence[object] | None,
        worst: Tensor | None = None,
    ) -> Ranked:
        wanted = min(max(k, self.candidates), len(self.removed))
        allowed = ~self.removed if bool(self.removed.any()) else None
        if where is not None:
            asked_for = self.metadata.allowed(where, len(self.removed))
            allowed = asked_for if allowed is None else asked_for & allowed
        found = [
            (
                asked[part],
                self._search_few(
                    checked[asked[part]], similarity, wanted, allowed, None if worst is None else worst[asked[part]]
                ),
            )
            for similarity, asked in self.memory.model.by_group(groups, len(checked))
            for part in blocks(len(asked), 1, BATCH)
        ]
        return (gathered(found) if found else self._nothing(checked, wanted)).best(k)

    def _draw(self) -> None:
        """The patterns as the similarity sees them, and the rows that stand for all others, the same each time."""
        self._stored = self.memory.modulation(self.memory.patterns).detach()
        self._prepared = prepared(self._stored)
        rows = (~self.removed).nonzero().squeeze(-1)
        if len(rows) > DRAWN:
            generator = torch.Generator().manual_seed(0)
            rows = rows[torch.randperm(len(rows), generator=generator)[:DRAWN].sort().values]
        self._drawn = rows
        self._drawn_vectors = lifted(self.memory, self.lifting, rows)

    def _nothing(self, queries: Queries, wanted: int) -> Ranked:
        """No queries, or no rows that may be answered."""
        return Ranking(self.memory.model, len(queries), wanted, queries).ranked()

    def _worst(self, similarity: Similarity, queries: Queries, allowed: Tensor | None) -> Tensor | None:
        """The worst scores of the rows that stand for all others; of all that pass a filter, if these are as few."""
        if not similarity.compares_patterns or not have_gaps(self._stored, queries):
            return None
        rows = self._drawn
        if allowed is not None:
            rows = rows[allowed[rows]] if int(allowed.sum()) > DRAWN else allowed.nonzero().squeeze(-1)
        return similarity.rows(rows).worst_scores(self._stored[rows], queries)

    def _search_few(
        self, queries: Queries, similarity: Similarity, wanted: int, allowed: Tensor | None, worst: Tensor | None
    ) -> Ranked:
        model, count = self.memory.model, len(self.removed) if allowed is None else int(allowed.sum())
        if not count:
            return self._nothing(queries, wanted)
        beta, (asked, is_whole) = model.beta, self._asked(queries, similarity)
        if allowed is not None and count <= FEW * wanted:
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
        worst = self._worst(similarity, queries, allowed) if worst is None else worst[:, : similarity.worst_count]
        looked_at = torch.cat([found.indices, compared.expand(len(queries), -1)], dim=-1)
        plain = self._exact(queries, similarity, looked_at, worst)
        scores = self._with_prior(plain, looked_at)
        number = found.indices.shape[1]
        exact, of_compared = scores[:, :number], scores[:, number:]
        known, evidence = torch.full((len(queries),), count), None
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
        return Ranked(ids, values, log_mass, known, count, evidence)

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
        asked = self.lifting.lift_queries(queries)
        if self.memory.log_prior is not None:
            asked = pad(asked, (0, 1), value=1.0)
        return asked, is_whole and self.lifting.is_whole

    def _exact(self, queries: Queries, similarity: Similarity, indices: Tensor, worst: Tensor | None) -> Scores:
        """The memory's scores of each query's candidates, (b, c), without the prior."""
        scores = paired_scores(similarity, self._stored, indices.clamp_min(0), queries, worst)
        return scores.masked_fill(indices < 0, -torch.inf)

    def _with_prior(self, scores: Scores, indices: Tensor) -> Scores:
        """Scores of these rows and their prior."""
        prior = self.memory.log_prior
        return scores if prior is None else with_prior(scores, prior[indices.clamp_min(0)], self.memory.separation)

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
