"""One shard: some rows of a store and their index, loaded from a cache file, or built and cached."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import final

import numpy as np
import torch
from torch import Tensor

from ahop._core.inputs import as_queries
from ahop._core.prepared import has_gaps
from ahop.errors import FileFormatError, InvalidTypeError, InvalidValueError, UnsupportedError
from ahop.memory.memory import AssociativeMemory
from ahop.memory.scoring import worst_among
from ahop.scale.cluster.messages import Message, ShardResult, worst_count
from ahop.scale.cluster.spec import ShardOptions, ShardSpec, read_shard
from ahop.scale.indexes.build import EXACT_COUNT, by_products, tune
from ahop.scale.indexes.index_file import load_index, save_index
from ahop.scale.indexes.lifted_candidates import lift_for_candidates
from ahop.scale.indexes.row_index import Index
from ahop.scale.stores.models import over
from ahop.scale.stores.recovery import open_table
from ahop.scale.stores.store import open_store
from ahop.scale.stores.stored_index import CACHE, digest_of
from ahop.scale.stores.table_rows import ID, ids_of, table_read


def shard_index(memory: AssociativeMemory, spec: ShardSpec, options: ShardOptions) -> Index:
    """The index of a shard whose memory this is.

    A file is used only if it was built for these very numbers, so it need not be trusted to be the right one; and where
    it cannot be read or written, the index is built all the same.
    """
    path = _path(spec, options)
    if path is not None and path.exists():
        with suppress(FileFormatError, InvalidValueError, OSError):
            return load_index(path, memory)
    built = _built(memory, options)
    if path is not None:
        with suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            save_index(built, path)
    return built


def _built(memory: AssociativeMemory, options: ShardOptions) -> Index:
    """Inner products where the similarity has a lifting, by an engine where rows are very many; else all scores."""
    if len(memory) > EXACT_COUNT:
        # Nothing to tune with, or no engine finds enough: looking at all rows is slower, and right.
        with suppress(InvalidTypeError, UnsupportedError):
            return tune(memory, target=options.target, tolerance=options.tolerance, candidates=options.candidates)
    stored = memory.modulation(memory.patterns).detach()
    try:
        lifting = lift_for_candidates(memory.similarity, stored, None, gaps=options.gaps, tolerance=options.tolerance)
    except UnsupportedError:
        return Index(memory, candidates=options.candidates)
    return by_products(memory, lifting, options.candidates)


def _path(spec: ShardSpec, options: ShardOptions) -> Path | None:
    """Named so that the store removes the files of versions that it drops."""
    folder = spec.location.folder
    where = Path(options.cache) if options.cache is not None else None if folder is None else folder / CACHE
    if where is None:
        return None
    rows = [spec.address, *spec.fragments, spec.start, spec.stop]
    return where / f"v{spec.version}-{digest_of({'rows': rows, 'options': options.key()})}.shard"


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
