"""Shards in words: how they search, and which rows of a store each of them has."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import torch

from ahop._core.checks import check_count, check_positive, check_rate
from ahop.errors import ShapeError
from ahop.scale.stores.integrity import verify_fragments
from ahop.scale.stores.location import Address, Location
from ahop.scale.stores.recovery import open_table
from ahop.scale.stores.store import BATCH_BYTES, Store, open_store
from ahop.scale.stores.table_rows import PATTERN, Rows, batches_of


@dataclass(frozen=True)
class ShardOptions:
    """Settings of the search in a shard.

    Attributes:
        candidates: how many are reranked for each query.
        tolerance: of the lifting.
        target: of the calibration, where a shard has more than a million rows.
        gaps: queries may have gaps, which distances must be lifted for.
        cache: a folder on each machine for the files of indexes. If None, one in the folder of the store; and no files
            where that is in none.
    """

    candidates: int = 100
    tolerance: float = 0.05
    target: float = 0.99
    gaps: bool = True
    cache: str | None = None

    def __post_init__(self) -> None:
        check_count("candidates", self.candidates)
        check_positive("tolerance", self.tolerance)
        check_rate("target", self.target)

    def key(self) -> tuple[object, ...]:
        """Key that tells one index from another."""
        return self.candidates, self.tolerance, self.target, self.gaps


@dataclass(frozen=True)
class ShardSpec:
    """Some rows of one version of a store: words and numbers only, so that a shard can be built from it again anywhere.

    Attributes:
        address: of the store.
        version: of the store.
        fragments: parts of the table, in their order.
        start: the first of their rows.
        stop: the row after the last.
        storage_options: what an object store asks for.
    """

    address: str
    version: int
    fragments: tuple[int, ...]
    start: int
    stop: int
    storage_options: dict[str, str] | None = field(default=None, repr=False)

    def __len__(self) -> int:
        return self.stop - self.start

    @property
    def location(self) -> Location:
        return Location.of(self.address, self.storage_options)


def as_store(store: Store | Address, storage_options: Mapping[str, str] | None = None) -> Store:
    return store if isinstance(store, Store) else open_store(store, storage_options=storage_options)


def shard_specs(store: Store, count: int) -> list[ShardSpec]:
    """The rows of the version that this handle sees in `count` shards, fewer if there are fewer rows."""
    table = open_table(store.location, store.version)
    fragments = [(int(each.fragment_id), int(each.count_rows())) for each in table.get_fragments()]
    sizes = [size for _, size in fragments]
    total, ends = sum(sizes), np.cumsum([0, *sizes])
    if not total:
        raise ShapeError(f"`{store.location.address}` has no patterns to share. `add` some first.")
    count = min(check_count("shards", count), total)
    cuts = [total * number // count for number in range(count + 1)]
    specs = []
    for start, stop in pairwise(cuts):
        mine = [at for at in range(len(sizes)) if ends[at] < stop and ends[at + 1] > start]
        before = int(ends[mine[0]])
        numbers = tuple(fragments[at][0] for at in mine)
        specs.append(
            ShardSpec(
                store.location.address, store.version, numbers, start - before, stop - before, store.location.options
            )
        )
    return specs


def read_shard(spec: ShardSpec) -> Rows:
    """Numbers and patterns of the rows, in their order."""
    parts = list(_batches(spec))
    return Rows(torch.cat([rows.ids for rows in parts]), torch.cat([rows.patterns for rows in parts]), {})


def _batches(spec: ShardSpec) -> Iterator[Rows]:
    table = open_table(spec.location, spec.version)
    fragments = [table.get_fragment(number) for number in spec.fragments]
    if spec.location.folder is not None:
        verify_fragments(spec.location.folder, fragments)
    dimensions = table.schema.field(PATTERN).type.list_size
    at = 0
    for rows in batches_of(table, max(1, BATCH_BYTES // (4 * dimensions)), None, fragments):
        part = slice(max(0, spec.start - at), spec.stop - at)
        at += len(rows)
        if at > spec.start and part.stop > 0:
            yield Rows(rows.ids[part].clone(), rows.patterns[part].clone(), {})
        if at >= spec.stop:
            return
