"""One state of a collection: patterns, their numbers and columns, a model. It never changes."""

import json
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from threading import Lock
from typing import Any, final

import torch
from torch import Tensor

from ahop._core.files import digest
from ahop.memory.explanation import Explanation
from ahop.memory.memory import AssociativeMemory
from ahop.memory.recall import Recall
from ahop.memory.recaller import answers_of
from ahop.memory.state import State
from ahop.scale.indexes.reranking import Index
from ahop.service.collections.columns import Columns, longest

# Through an index only so many of its candidates are answered: the last of them are not sure to be the next best.
SHARE = 0.25
# Filters whose rows are remembered, and how many rows of all of them.
REMEMBERED, REMEMBERED_ROWS = 64, 2**22


@final
class Snapshot:
    """Answers requests of one version.

    Args:
        memory: nobody else changes it.
        ids: (n,) the number of each row, by which answers name it.
        metadata: columns of what is known of each row.
        version: of the model and the rows.
        index: of the memory, which brings the candidates where few answers are asked for.
    """

    def __init__(
        self,
        memory: AssociativeMemory,
        ids: Tensor,
        metadata: Mapping[str, list[Any]],
        version: int,
        index: Index | None = None,
    ) -> None:
        self.memory, self.ids, self.version, self.index = memory, ids, version, index
        known = {"id": ids.tolist(), **metadata}
        if memory.labels is not None and "label" not in known:
            known["label"] = memory.labels.tolist()
        self.metadata = Columns(known, len(ids))
        # In an answer: of the longest label, and of the longest name of a dimension.
        self.label_bytes = 0 if memory.labels is None else self.metadata.columns["label"].longest
        self.name_bytes = longest(memory.columns or ["dimension 00000000"])
        state = State(memory.patterns, memory.log_prior, memory.labels, memory.model)
        # Where nothing is modulated, the very tensor: its blocks are packed, and those of a view would not be.
        self._state = replace(state, modulated=state.stored())
        self._without_patterns = replace(self._state, patterns=memory.patterns[:, :0])
        self._row_of: dict[int, int] | None = None
        self._rows: OrderedDict[str, Tensor] = OrderedDict()
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def dimensions(self) -> int:
        return int(self.memory.patterns.shape[1])

    @property
    def columns(self) -> tuple[str, ...] | None:
        """Names of the columns, if the patterns have any."""
        return self.memory.columns

    def rows(
        self, where: Mapping[str, Any] | None, forced: Mapping[str, Any] | None = None
    ) -> tuple[str, Tensor | None]:
        """The rows that pass both filters, and a name for these; None for all."""
        if where is None and forced is None:
            return "", None
        name = digest(json.dumps([where, forced], sort_keys=True).encode())
        with self._lock:
            if name in self._rows:
                self._rows.move_to_end(name)
                return name, self._rows[name]
        found = self.metadata.rows(where or {})
        if forced is not None:
            allowed = self.metadata.rows(forced)
            found = found[torch.isin(found, allowed, assume_unique=True)]
        with self._lock:
            self._rows[name] = found
            while len(self._rows) > REMEMBERED or sum(map(len, self._rows.values())) > REMEMBERED_ROWS:
                self._rows.popitem(last=False)
        return name, found

    def row_of(self, number: int) -> int | None:
        """The row of the pattern with this number."""
        if self._row_of is None:
            self._row_of = {each: row for row, each in enumerate(self.ids.tolist())}
        return self._row_of.get(number)

    def digest_of(self, row: int) -> str:
        """Sixteen digits that tell a stored pattern from others: of its numbers, and of where it has none."""
        pattern = self.memory.patterns[row].detach().float()
        numbers = pattern.masked_fill(pattern.isnan(), torch.nan).numpy()  # there are several kinds of NaN
        return digest(numbers.astype("<f4").tobytes())[:16]

    def uses_index(self, k: int, same: Sequence[object] | None = None) -> bool:
        """True if the index answers such a question; else every row is scored."""
        return self.index is not None and same is None and k <= SHARE * self.index.candidates

    @torch.no_grad()
    def answers(
        self,
        queries: Tensor,
        k: int,
        rows: Tensor | None = None,
        groups: Sequence[str] | None = None,
        same: Sequence[object] | None = None,
        patterns: bool = False,
    ) -> Recall[Tensor]:
        """Recall as a memory does; `indices` are rows, and patterns are looked up only if they are asked for."""
        state, k = self._state if patterns else self._without_patterns, min(k, len(self))
        if same is not None:
            return state.recalled_together(queries, k, rows, groups, same)
        if self.index is None or not self.uses_index(k):
            return state.recalled(queries, k, rows, groups)
        ranked = self.index.search(queries, self.index.candidates, where=rows, groups=groups)
        return answers_of(ranked, state.model, k, state.patterns, state.labels)

    def explain(self, query: Tensor, rows: Tensor | None, group: str | None) -> Explanation:
        """Explain the answer to one query (1, d), among the rows that may be answered."""
        memory = self.memory
        names = memory.labels if memory.labels is not None else self.ids.numpy().astype(object)
        return self._state.explained(query, None, group, names, memory.columns, rows)
