"""The index of a shard: loaded from a cache file, or built and cached."""

from contextlib import suppress
from pathlib import Path

from ahop.errors import FileFormatError, InvalidTypeError, InvalidValueError, UnsupportedError
from ahop.memory.memory import AssociativeMemory
from ahop.scale.cluster.exhaustive import ExhaustiveIndex
from ahop.scale.cluster.options import ShardOptions
from ahop.scale.cluster.spec import ShardSpec
from ahop.scale.indexes.build import EXACT_COUNT, tune
from ahop.scale.indexes.candidates import lift_for_candidates
from ahop.scale.indexes.engines.exact import ExactEngine
from ahop.scale.indexes.files import load_index, save_index
from ahop.scale.indexes.reranking import Index, lifted
from ahop.scale.stores.stored_index import CACHE, digest_of


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
