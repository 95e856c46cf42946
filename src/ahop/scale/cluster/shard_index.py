"""The index of a shard: loaded from a cache file, or built and cached; all scores where nothing can be lifted."""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import final

import torch
from torch import Tensor

from ahop._core.typing import Queries
from ahop.errors import FileFormatError, InvalidTypeError, InvalidValueError, UnsupportedError
from ahop.memory.memory import AssociativeMemory
from ahop.memory.ranking import Ranked
from ahop.memory.scoring import rank
from ahop.scale.cluster.spec import ShardOptions, ShardSpec
from ahop.scale.indexes.build import EXACT_COUNT, tune
from ahop.scale.indexes.engines.exact import ExactEngine
from ahop.scale.indexes.index_file import load_index, save_index
from ahop.scale.indexes.lifted_candidates import lift_for_candidates
from ahop.scale.indexes.metadata import Metadata, Where
from ahop.scale.indexes.reranking import Index, lifted
from ahop.scale.stores.stored_index import CACHE, digest_of


@final
class ExhaustiveIndex:
    """Stand-in for an `Index` where the similarity has no lifting: slower, and exact."""

    def __init__(self, memory: AssociativeMemory) -> None:
        self.memory, self._none = memory, Metadata(None, len(memory))

    @torch.no_grad()
    def search(
        self,
        queries: Queries,
        k: int,
        *,
        where: Where | None = None,
        groups: Sequence[object] | None = None,
        worst: Tensor | None = None,
    ) -> Ranked:
        rows = None if where is None else self._none.allowed(where, len(self.memory)).nonzero().squeeze(-1)
        stored = self.memory.modulation(self.memory.patterns)
        k = min(k, len(self.memory))
        return rank(self.memory.model, stored, queries, k, groups=groups, rows=rows, worst=worst)


def shard_index(memory: AssociativeMemory, spec: ShardSpec, options: ShardOptions) -> Index | ExhaustiveIndex:
    """The index of a shard whose memory this is.

    A file is used only if it was built for these very numbers, so it need not be trusted to be the right one; and where
    it cannot be read or written, the index is built all the same.
    """
    path = _path(spec, options)
    if path is not None and path.exists():
        with suppress(FileFormatError, InvalidValueError, OSError):
            return load_index(path, memory)
    built = _built(memory, options)
    if path is not None and isinstance(built, Index):
        with suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            save_index(built, path)
    return built


def _built(memory: AssociativeMemory, options: ShardOptions) -> Index | ExhaustiveIndex:
    """Inner products where the similarity has a lifting, by an engine where rows are very many; else all scores."""
    if len(memory) > EXACT_COUNT:
        # Nothing to tune with, or no engine finds enough: looking at all rows is slower, and right.
        with suppress(InvalidTypeError, UnsupportedError):
            return tune(memory, target=options.target, tolerance=options.tolerance, candidates=options.candidates)
    stored = memory.modulation(memory.patterns).detach()
    try:
        lifting = lift_for_candidates(memory.similarity, stored, None, gaps=options.gaps, tolerance=options.tolerance)
    except UnsupportedError:
        return ExhaustiveIndex(memory)
    return Index(memory, lifting, ExactEngine(lifted(memory, lifting)), options.candidates)


def _path(spec: ShardSpec, options: ShardOptions) -> Path | None:
    """Named so that the store removes the files of versions that it drops."""
    folder = spec.location.folder
    where = Path(options.cache) if options.cache is not None else None if folder is None else folder / CACHE
    if where is None:
        return None
    rows = [spec.address, *spec.fragments, spec.start, spec.stop]
    return where / f"v{spec.version}-{digest_of({'rows': rows, 'options': options.key()})}.shard"
