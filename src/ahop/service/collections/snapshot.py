"""One state of a collection: patterns, their numbers and columns, a model. It never changes."""

import json
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from threading import Lock
from typing import Any, TypeAlias, final

import torch
from torch import Tensor
from typing_extensions import override

from ahop._core.files import digest
from ahop.memory.explanation import Explanation
from ahop.memory.memory import AssociativeMemory
from ahop.memory.model import Model
from ahop.memory.recall import Recall
from ahop.memory.recaller import answers_of
from ahop.memory.state import State
from ahop.modulations.unmodulated import Unmodulated
from ahop.scale.indexes.row_index import Index
from ahop.service.collections.columns import Columns, longest

# Through an index only so many of its candidates are answered: the last of them are not sure to be the next best.
SHARE = 0.25
# Filters whose rows are remembered, and how many rows of all of them.
REMEMBERED, REMEMBERED_ROWS = 64, 2**22


# As long as the name of a dimension that has none.
UNNAMED = "dimension 00000000"
# Rows that pass a filter: their numbers, or the filter in the words by which shards find them.
Passing: TypeAlias = Tensor | str
Filter: TypeAlias = Mapping[str, Any] | None


@dataclass(frozen=True)
class RecallOptions:
    """Options of a recall.

    Attributes:
        rows: that may be answered.
        groups: of each query.
        same: queries with one entry have one origin.
        patterns: look up the stored patterns.
    """

    rows: Passing | None = None
    groups: Sequence[str] | None = None
    same: Sequence[object] | None = None
    patterns: bool = False


ALL = RecallOptions()


class BaseSnapshot(ABC):
    """State of a collection as every request sees it.

    Attributes:
        version: of the model and the rows.
        label_bytes: in an answer, of the longest label.
        name_bytes: in an answer, of the longest name of a dimension.
        filters: the kinds of the columns that a filter may name.
        model: of the patterns.
        columns: names of the dimensions, if the patterns have any.
        example: one query (1, d).
    """

    version: int
    label_bytes: int
    name_bytes: int
    filters: Mapping[str, str]
    model: Model
    columns: tuple[str, ...] | None
    example: Tensor

    @abstractmethod
    def __len__(self) -> int: ...

    @property
    def dimensions(self) -> int:
        return int(self.example.shape[1])

    @abstractmethod
    def rows(self, where: Filter, forced: Filter = None) -> tuple[str, Passing | None]:
        """The rows that pass both filters, and a name for these; None for all."""

    @abstractmethod
    def count(self, rows: Passing | None) -> int:
        """The number of rows that pass."""

    @abstractmethod
    def numbers_of(self, rows: Tensor) -> Tensor:
        """Numbers by which answers name these rows (b, k); -1 where there are no more."""

    def uses_index(self, k: int, same: Sequence[object] | None = None) -> bool:
        """True if the index answers such a question; else every row is scored."""
        return False

    @abstractmethod
    def answers(self, queries: Tensor, k: int, options: RecallOptions = ALL) -> Recall[Tensor]:
        """Recall as a memory does; `indices` are rows."""


@final
class Snapshot(BaseSnapshot):
    """Patterns in this process.

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
        memory.model.check_same_columns("A service")
        self.memory, self.ids, self.version, self.index = memory, ids, version, index
        self.model, self.columns, self.example = memory.model, memory.columns, memory.patterns[:1]
        known = {"id": ids.tolist(), **metadata}
        if memory.labels is not None and "label" not in known:
            known["label"] = memory.labels.tolist()
        self.metadata = Columns(known, len(ids))
        self.label_bytes = 0 if memory.labels is None else self.metadata.columns["label"].longest
        self.name_bytes = longest(self.columns or [UNNAMED])
        self.filters = {name: column.kind_name for name, column in self.metadata.columns.items()}
        state = State(memory.patterns, memory.log_prior, memory.labels, memory.model)
        # Where nothing is modulated, the very tensor: a plan is made of it, and its blocks are packed.
        is_modulated = not isinstance(memory.modulation, Unmodulated)
        self._state = replace(state, modulated=state.stored()) if is_modulated else state
        self._row_of: dict[int, int] | None = None
        self._rows: OrderedDict[str, Tensor] = OrderedDict()
        self._lock = Lock()

    @override
    def __len__(self) -> int:
        return len(self.ids)

    @override
    def count(self, rows: Passing | None) -> int:
        return len(self) if rows is None else len(rows)

    @override
    def numbers_of(self, rows: Tensor) -> Tensor:
        return self.ids[rows.clamp_min(0)].masked_fill(rows < 0, -1)

    @override
    def rows(self, where: Filter, forced: Filter = None) -> tuple[str, Tensor | None]:
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

    @override
    def uses_index(self, k: int, same: Sequence[object] | None = None) -> bool:
        return self.index is not None and same is None and k <= SHARE * self.index.candidates

    @override
    @torch.no_grad()
    def answers(self, queries: Tensor, k: int, options: RecallOptions = ALL) -> Recall[Tensor]:
        rows, groups = options.rows, options.groups
        assert not isinstance(rows, str)
        state, k = self._state, min(k, len(self))
        if options.same is not None:
            return state.recalled_together(queries, k, rows, groups, options.same, options.patterns)
        if self.index is None or not self.uses_index(k) or self.index.looks_at_all(len(queries), groups):
            return state.recalled(queries, k, rows, groups, options.patterns)
        ranked = self.index.search(queries, self.index.candidates, where=rows, groups=groups)
        return answers_of(ranked, state.model, k, state.told(options.patterns), state.labels)

    def explain(self, query: Tensor, rows: Passing | None, group: str | None) -> Explanation:
        """Explain the answer to one query (1, d), among the rows that may be answered."""
        assert not isinstance(rows, str)
        memory = self.memory
        names = memory.labels if memory.labels is not None else self.ids.numpy().astype(object)
        return self._state.explained(query, None, group, names, memory.columns, rows)
