"""Recall over shards: validate, split into messages, send, merge."""

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Protocol, TypeVar

import numpy as np
import torch
from torch import Tensor
from typing_extensions import override

from ahop._core.checks import as_group_names
from ahop._core.missing import holds_nan
from ahop._core.typing import Queries
from ahop.memory.recall import Recall, joined
from ahop.memory.recaller import BaseRecaller
from ahop.scale.cluster.messages import Message, ShardResult, depth_for, merge, message_blocks
from ahop.scale.stores.filters import as_filter, kind_of
from ahop.scale.stores.recovery import open_table
from ahop.scale.stores.store import Store, open_store
from ahop.scale.stores.table_rows import PATTERN

# For each block of queries in its turn the answers of all shards, to so many rows each and under a filter.
Ask = Callable[[Iterator[Message], int, str | None], Iterator[list[ShardResult]]]
Itself = TypeVar("Itself", bound="ShardedRecaller")


class View:
    """One version of a store as those see it who ask its shards: what was learned, and the columns, but no pattern.

    Args:
        shards: how many there are.
        candidates: how many rows each of them reranks.
    """

    def __init__(self, store: Store, shards: int, candidates: int) -> None:
        self.location = store.location
        self.version, self.rows, self.shards, self.candidates = store.version, len(store), shards, candidates
        self.model, self.dimensions, self.columns = store.model(), store.dimensions, store.columns
        similarities = (self.model.similarity, *self.model.groups.values())
        self._compares_patterns = any(each.compares_patterns for each in similarities)
        self._has_gaps = True  # until the shards say that no pattern has any
        self._schema = open_table(store.location, store.version).schema

    def filter(self, where: Mapping[str, object] | None) -> str | None:
        """Checked here, once: shards get words that are right."""
        return None if where is None else as_filter(where, self._schema)

    @property
    def kinds(self) -> dict[str, str]:
        """Columns that a filter may name, and the kinds of their values."""
        return {name: kind_of(self._schema.field(name).type) for name in self._schema.names if name != PATTERN}

    def count(self, words: str | None) -> int:
        """The number of rows that pass a filter."""
        if words is None:
            return self.rows
        return int(open_table(self.location, self.version).count_rows(filter=words))

    @torch.no_grad()
    def recalled(
        self,
        ask: Ask,
        queries: Queries,
        k: int,
        words: str | None,
        groups: Sequence[object] | None,
    ) -> Recall[Tensor]:
        """Merge the answers of all shards to queries that were checked, among the rows that pass a filter."""
        names, k = None if groups is None else as_group_names(groups, len(queries)), min(k, self.rows)
        depth = depth_for(self.model, k, self.candidates)
        cuts = message_blocks(len(queries), self.dimensions, depth, self.shards)
        messages = [
            Message(np.ascontiguousarray(queries[rows].numpy()), None if names is None else names[rows])
            for rows in cuts
        ]
        if self._compares_patterns and (self._has_gaps or holds_nan(queries)):
            messages = self._with_worst(ask, messages, words)
        parts = [merge(each, self.model, k) for each in ask(iter(messages), depth, words)]
        return joined(parts) if parts else self._nothing(queries, k)

    def _with_worst(self, ask: Ask, messages: list[Message], where: str | None) -> list[Message]:
        """Fix the worst scores of all shards, which are asked for these first."""
        asking = (replace(each, asks_worst=True) for each in messages)
        found = list(ask(asking, 1, where))
        if found:
            self._has_gaps = any(bool(each.arrays["gaps"]) for each in found[0])
        return [
            replace(message, worst=np.minimum.reduce([each.arrays["worst"] for each in answers]))
            for message, answers in zip(messages, found, strict=True)
        ]

    def _nothing(self, queries: Queries, k: int) -> Recall[Tensor]:
        """The answer to no query."""
        posterior = queries.new_empty(0, k)
        unknown = None if self.model.detector is None else queries.new_empty(0)
        patterns = queries.new_empty(0, k, self.dimensions)
        return Recall(posterior.long(), posterior, patterns, unknown, is_checked=self.model.is_checked)


class Shards(Protocol):
    """The shards of one version of a store."""

    @property
    def view(self) -> View: ...

    def answers(self, messages: Iterator[Message], k: int, where: str | None) -> Iterator[list[ShardResult]]: ...


class ShardedRecaller(BaseRecaller[Mapping[str, object]]):
    """Answers as a memory does, from shards; patterns are named by their ids in the store."""

    @property
    @abstractmethod
    def view(self) -> View:
        """The version that is answered from."""

    @abstractmethod
    def held(self) -> AbstractContextManager[Shards]:
        """The shards of this moment, which stay while they are held."""

    @abstractmethod
    def refresh(self) -> int:
        """Move to the newest version of the store; returns its number."""

    def newest(self) -> Store:
        """The store in its newest version, whoever wrote it."""
        return open_store(self.address, storage_options=self.view.location.options)

    def __len__(self) -> int:
        return self.view.rows

    @property
    def address(self) -> str:
        """Address of the store."""
        return self.view.location.address

    @property
    def version(self) -> int:
        """Version of the store that is answered from."""
        return self.view.version

    @property
    @override
    def columns(self) -> tuple[str, ...] | None:
        return self.view.columns

    @property
    @override
    def dimensions(self) -> int:
        return self.view.dimensions

    @override
    def _recalled(
        self, queries: Queries, k: int, where: Mapping[str, object] | None, groups: Sequence[object] | None
    ) -> Recall[Tensor]:
        with self.held() as shards:  # one version answers a call, whatever happens meanwhile
            return shards.view.recalled(shards.answers, queries, k, shards.view.filter(where), groups)

    @abstractmethod
    def close(self) -> None:
        """Let go of what was taken."""

    def __enter__(self: Itself) -> Itself:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
