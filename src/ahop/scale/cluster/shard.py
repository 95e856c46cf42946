"""One shard: some rows of a store and their index."""

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import final

import numpy as np
import torch
from torch import Tensor

from ahop._core.inputs import as_queries
from ahop._core.prepared import has_gaps
from ahop.memory.scoring import worst_among
from ahop.scale.cluster.messages import Message, ShardResult, worst_count
from ahop.scale.cluster.shard_index import shard_index
from ahop.scale.cluster.spec import ShardOptions, ShardSpec, read_shard
from ahop.scale.stores.models import over
from ahop.scale.stores.recovery import open_table
from ahop.scale.stores.store import open_store
from ahop.scale.stores.table_rows import ID, ids_of, table_read

# Filters whose rows are kept: a version never changes, so they stay right.
KEPT_FILTERS = 32


@final
class Shard:
    """Some rows of a store, and an index of them.

    Args:
        spec: which rows, of which version.
    """

    def __init__(self, spec: ShardSpec, options: ShardOptions | None = None) -> None:
        self.spec, self.options = spec, options or ShardOptions()
        rows = read_shard(spec)
        model = open_store(spec.address, spec.version, spec.storage_options).model()
        self.ids, self.memory = rows.ids, over(model, rows.patterns)
        self.index = shard_index(self.memory, spec, self.options)
        self._sorted = rows.ids.sort()
        self._rows: Callable[[str], Tensor] = lru_cache(KEPT_FILTERS)(self._find)

    def __len__(self) -> int:
        return len(self.ids)

    @torch.no_grad()
    def search(self, message: Message, k: int, where: str | None = None) -> ShardResult:
        """The k best rows of each query with exact scores, and what all rows weigh.

        Args:
            where: a filter in the words of `ahop.stores`; only rows that pass are answered.
        """
        asked = as_queries(np.array(message.queries), self.memory.patterns)
        allowed = None if where is None else self._rows(where)
        if message.asks_worst:
            return self._worst(asked, message.groups, allowed)
        worst = None if message.worst is None else torch.from_numpy(np.array(message.worst))
        ranked = self.index.search(asked, k, where=allowed, groups=message.groups, worst=worst)
        known, missing = ranked.ids.clamp_min(0), ranked.ids < 0
        patterns = self.memory.patterns[known].masked_fill(missing.unsqueeze(-1), torch.nan)
        return ShardResult.of(replace(ranked, ids=self.ids[known].masked_fill(missing, -1), patterns=patterns))

    def _worst(self, queries: Tensor, groups: list[str] | None, allowed: Tensor | None) -> ShardResult:
        """The worst scores of these rows, infinity where a query knows none; and whether any of these has gaps."""
        model = self.memory.model
        stored = model.modulation(self.memory.patterns if allowed is None else self.memory.patterns[allowed])
        found = torch.full((len(queries), worst_count(model)), torch.inf)
        for similarity, which in model.by_group(groups, len(queries)):
            found[which, : similarity.worst_count] = worst_among(similarity, stored, queries[which])
        return ShardResult({"worst": found.numpy(), "gaps": np.array(has_gaps(self.memory.patterns))}, len(stored))

    def _find(self, where: str) -> Tensor:
        """Flags (n,) of the rows that pass."""
        table = open_table(self.spec.location, self.spec.version)
        fragments = [table.get_fragment(number) for number in self.spec.fragments]
        ids = ids_of(table_read(table.scanner(columns=[ID], filter=where, fragments=fragments)))
        places = torch.searchsorted(self._sorted.values, ids).clamp_max(len(self) - 1)
        mine = self._sorted.values[places] == ids
        return torch.zeros(len(self), dtype=torch.bool).index_fill_(0, self._sorted.indices[places[mine]], True)
