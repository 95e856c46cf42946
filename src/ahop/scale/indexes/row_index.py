"""The index: a memory's answers, by an engine and by looking at every row, each where it takes less time."""

from collections.abc import Mapping, Sequence
from copy import copy
from typing import Any, final

import torch
from torch import Tensor
from typing_extensions import override

from ahop._core.blocks import blocks
from ahop._core.checks import check_count, check_kind
from ahop._core.html import facts
from ahop._core.inputs import as_queries, as_query, as_rows
from ahop._core.typing import Entries, Queries, RowsLike
from ahop.errors import InvalidValueError
from ahop.memory.explaining import Compared, explain
from ahop.memory.explanation import Explanation
from ahop.memory.memory import AssociativeMemory
from ahop.memory.ranking import Ranked, Ranking, gathered
from ahop.memory.recall import Recall
from ahop.memory.recaller import BaseRecaller, answers_of
from ahop.memory.scoring import rank, settled
from ahop.scale.indexes.engines.base import Engine
from ahop.scale.indexes.metadata import Metadata, Where
from ahop.scale.indexes.reranking import Reranking, is_few
from ahop.scale.liftings.base import Lifting

# Queries answered at a time: what is drawn and what is reranked stays small.
BATCH = 512


@final
class Index(BaseRecaller[Where]):
    """The answers of a memory, found by an engine, or by looking at every row where that takes less time.

    Rows keep their numbers: those that are removed are never answered again, and their numbers not given anew.

    Args:
        memory: whose similarity decides; it is copied, its patterns are shared.
        lifting: of that similarity, or of another that brings the candidates; None without an engine.
        engine: of the lifted patterns; see `lifted`. Without one every row is looked at.
        candidates: how many are reranked for each query.
        metadata: columns to filter by, one entry for each row.
        curve: what was measured when the index was calibrated.
        scanned: how many queries at a time are answered sooner by looking at every row than by the engine; None for
            any number. Those with groups, and those among few rows, go by the engine.
    """

    def __init__(
        self,
        memory: AssociativeMemory,
        lifting: Lifting | None = None,
        engine: Engine | None = None,
        candidates: int = 100,
        metadata: Mapping[str, Any] | None = None,
        curve: tuple[Any, ...] = (),
        scanned: int | None = 0,
    ) -> None:
        self.memory = check_kind("memory", memory, AssociativeMemory).copy()
        self.candidates, self.curve = check_count("candidates", candidates), curve
        self.scanned = None if scanned is None else check_count("scanned", scanned, 0)
        self.metadata = Metadata(metadata, len(memory))
        self.removed = torch.zeros(len(memory), dtype=torch.bool)
        if memory.log_prior is not None:
            self.removed |= torch.isneginf(memory.log_prior).cpu()
        self._reranking: Reranking | None = None
        if lifting is not None and engine is not None:
            self._reranking = Reranking(self.memory, lifting, engine, self.candidates, self.removed)
        elif lifting is not None or engine is not None:
            raise InvalidValueError("`lifting` and `engine` belong together: give both, or neither to scan all rows.")

    def __len__(self) -> int:
        return int((~self.removed).sum())

    @property
    def lifting(self) -> Lifting | None:
        """The lifting that brings the candidates."""
        return None if self._reranking is None else self._reranking.lifting

    @property
    def engine(self) -> Engine | None:
        """The engine of the lifted patterns."""
        return None if self._reranking is None else self._reranking.engine

    @property
    def kind(self) -> str:
        """The kind of the engine; `"exhaustive"` without one."""
        return "exhaustive" if self.engine is None else str(self.engine.settings()["kind"])

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
            "engine": "none: every row is looked at" if self.engine is None else repr(self.engine),
            "similarity": type(self.memory.similarity).__name__,
            "candidates of a query": self.candidates,
            "columns to filter by": ", ".join(self.metadata.columns) or "none",
        }
        return facts("Index", known)

    def looks_at_all(self, count: int, groups: Sequence[object] | None = None) -> bool:
        """True where so many queries are answered by the memory itself: without an engine, or where it is faster."""
        return self.engine is None or (groups is None and (self.scanned is None or count <= self.scanned))

    def explain(self, query: RowsLike | Entries, *, against: object = None, group: object = None) -> Explanation:
        """Why this query is answered as it is, as `AssociativeMemory.explain` says; the answers are the index's own."""
        memory = self.memory
        asked = as_query(query, memory.patterns, memory.columns, self._query_dimensions)
        model = memory.model.for_group(group)
        ranked = self.search(asked, 2, groups=None if group is None else [group])
        stored = self._stored()
        compared = Compared.among(ranked, against, stored, memory.log_prior, memory.labels, memory.columns)
        if bool(self.removed[compared.rows.cpu()].any()):
            raise InvalidValueError(f"`against` must be a pattern that can be answered; {against!r} was removed.")
        if self._reranking is None:
            model = settled(model, stored, asked, None if (rows := self._allowed()) is None else _numbers(rows))
        elif (worst := self._reranking.worst(model.similarity, asked, None)) is not None:
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
        checked = self._checked(queries)
        return self._search(checked, check_count("k", k), self._allowed(where), groups, worst)

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
            if self._reranking is not None:
                self._reranking.add(rows)
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
    def _query_dimensions(self) -> int | None:
        return self.memory.model.query_dimensions

    @override
    def _recalled(
        self, queries: Queries, k: int, where: Where | None, groups: Sequence[object] | None
    ) -> Recall[Tensor]:
        memory, k, allowed = self.memory, min(k, len(self.removed)), self._allowed(where)
        are_few = allowed is not None and is_few(int(allowed.sum()), self.candidates)
        if self._reranking is None or (self.looks_at_all(len(queries), groups) and not are_few):
            return memory._recalled(queries, k, allowed, groups)
        ranked = self._search(queries, max(k, self.candidates), allowed, groups)
        return answers_of(ranked, memory.model, k, memory.patterns, memory.labels)

    def _allowed(self, where: Where | None = None) -> Tensor | None:
        """Flags (n,) of the rows that may be answered; None for all."""
        allowed = ~self.removed if bool(self.removed.any()) else None
        if where is None:
            return allowed
        asked_for = self.metadata.allowed(where, len(self.removed))
        return asked_for if allowed is None else asked_for & allowed

    @torch.no_grad()
    def _search(
        self,
        queries: Queries,
        k: int,
        allowed: Tensor | None,
        groups: Sequence[object] | None,
        worst: Tensor | None = None,
    ) -> Ranked:
        memory, wanted = self.memory, min(max(k, self.candidates), len(self.removed))
        reranking = self._reranking
        if reranking is None:
            rows, k = None if allowed is None else _numbers(allowed), min(k, len(self.removed))
            model, prior = memory.model, memory.log_prior
            return rank(model, self._stored(), queries, k, groups=groups, rows=rows, log_prior=prior, worst=worst)
        if not len(queries) or (allowed is not None and not bool(allowed.any())):
            return Ranking(memory.model, len(queries), min(wanted, k), queries).ranked()
        found = []
        for similarity, asked in memory.model.by_group(groups, len(queries)):
            for part in blocks(len(asked), 1, BATCH):
                some = asked[part]
                among = None if worst is None else worst[some, : similarity.worst_count]
                found.append((some, reranking.search(queries[some], similarity, wanted, allowed, among)))
        return gathered(found).best(k)

    def _draw(self) -> None:
        if self._reranking is not None:
            self._reranking.draw(self.removed)

    def _stored(self) -> Tensor:
        """The patterns as the similarity sees them."""
        return self.memory.modulation(self.memory.patterns).detach()


def _numbers(flags: Tensor) -> Tensor:
    return flags.nonzero().squeeze(-1)
