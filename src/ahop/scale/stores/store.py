"""Durable, versioned stores of patterns."""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, final

import torch
from torch import Tensor
from typing_extensions import override

from ahop._core.checks import check_count
from ahop._core.free_memory import check_free_memory
from ahop._core.html import facts
from ahop._core.inputs import as_query
from ahop._core.typing import Array, Entries, Queries, RowsLike
from ahop.errors import InvalidValueError, ShapeError, UnavailableError, UnsupportedError
from ahop.memory.explaining import Compared, explain
from ahop.memory.explanation import Explanation
from ahop.memory.memory import AssociativeMemory
from ahop.memory.model import Model
from ahop.memory.reasons import is_unknown
from ahop.memory.recall import Recall
from ahop.memory.recaller import BaseRecaller
from ahop.scale.stores.changes import add_rows, compact, remove_rows, replace_model, restore, upsert_rows
from ahop.scale.stores.filters import as_filter
from ahop.scale.stores.integrity import verify_version
from ahop.scale.stores.location import Address, Location
from ahop.scale.stores.models import as_model, over, read_model, words_of
from ahop.scale.stores.names import read_names
from ahop.scale.stores.recovery import check_heads, has_head, heads, newest_version, open_table
from ahop.scale.stores.stored_index import CACHE, StoredIndex, indexed
from ahop.scale.stores.streaming import ranked_among, settled_among, stream
from ahop.scale.stores.table_rows import (
    ID,
    PATTERN,
    Rows,
    as_id,
    as_ids,
    as_stored,
    batches_of,
    positions_of,
    rows_of,
    table_read,
)
from ahop.scale.stores.writer import Writer
from ahop.similarities.base import Similarity
from ahop.variants.base import Pairs, Variant

# What is read of the table at a time.
BATCH_BYTES = 16 * 2**20
KEPT = timedelta(days=7)
# Each write looks through the files of all versions that are kept: a millisecond for a hundred of them.
MOST_VERSIONS = 1000


@dataclass(frozen=True)
class Version:
    """One state of a table: its number, when it was written, and how many patterns it has."""

    number: int
    when: datetime
    rows: int


@final
class Store(BaseRecaller[Mapping[str, object]]):
    """Patterns, columns that are known of each, and a model, in a table that many can write to.

    `create_store` makes one and `open_store` opens it. A handle sees one version until it writes or is refreshed. What
    was acknowledged is durable. Answers name patterns by their `ids`.
    """

    def __init__(self, table: Any, location: Location, is_fixed: bool = False) -> None:
        self.location = location
        self._table, self._is_fixed, self._writer = table, is_fixed, Writer(location)
        self._known_model: tuple[str, Model] | None = None
        words_of(table.schema, location)

    def __len__(self) -> int:
        return int(self._table.count_rows())

    def __repr__(self) -> str:
        return f"Store({self.location.address!r}, version={self.version}, rows={len(self)})"

    def _repr_html_(self) -> str:
        known = {
            "address": self.location.address,
            "version": self.version,
            "patterns": f"{len(self)} of {self.dimensions} dimensions",
            "metadata": ", ".join(self.metadata_columns) or "none",
        }
        return facts("Store", known)

    @property
    def version(self) -> int:
        """The version that this handle sees."""
        return int(self._table.version)

    @property
    @override
    def dimensions(self) -> int:
        return int(self._table.schema.field(PATTERN).type.list_size)

    @property
    @override
    def columns(self) -> tuple[str, ...] | None:
        """The names of the columns, if the patterns came from a frame: those of queries are put into their order."""
        return read_names(self._table.schema, self.dimensions, self.location)

    @property
    def metadata_columns(self) -> list[str]:
        """The names of the columns that are known of each pattern beside its numbers."""
        return [name for name in self._table.schema.names if name not in (ID, PATTERN)]

    # Versions.

    def versions(self) -> list[Version]:
        """Those that can be opened, oldest first."""
        if self.location.folder is not None:
            check_heads(self.location, heads(self.location.folder))
        found = [(each["version"], each["timestamp"], each["metadata"]) for each in self._table.versions()]
        return [Version(int(number), when.astimezone(UTC), int(facts["total_rows"])) for number, when, facts in found]

    def at(self, version: int) -> "Store":
        """The table as it was, patterns and model, to read only."""
        if self.location.folder is not None:
            check_heads(self.location, [each for each in heads(self.location.folder) if each[0] == version])
        try:
            table = self._table.checkout_version(version)
        except (OSError, ValueError) as error:
            kept = [each.number for each in self.versions()]
            raise InvalidValueError(f"`version` must be one of {kept}, which are kept; got {version!r}.") from error
        return Store(table, self.location, is_fixed=True)

    def refresh(self) -> None:
        """See the newest version, whoever wrote it."""
        self._check_open()
        if self.location.folder is not None:
            newest_version(self.location)  # raises if its head is damaged
        self._table.checkout_latest()

    # Reading.

    def fragments(self) -> list[int]:
        """The parts that the table is stored in, for those who share the work."""
        return [int(each.fragment_id) for each in self._table.get_fragments()]

    def tombstones(self) -> int:
        """Rows that were removed and still lie in the files; `compact` takes them out."""
        return sum(int(each.num_deletions) for each in self._table.get_fragments())

    def rows(self, fragments: Sequence[int] | None = None) -> Rows:
        """The patterns of the table, or of some of its parts, with their numbers and metadata."""
        self._verify()
        parts = self._parts(fragments)
        count = len(self) if parts is None else sum(each.count_rows() for each in parts)
        check_free_memory(2 * count * (4 * self.dimensions + 16), f"{count} patterns of {self.dimensions} dimensions")
        if parts is not None and not parts:
            return rows_of(self._table.schema.empty_table(), self.dimensions)
        return rows_of(table_read(self._table.scanner(fragments=parts, scan_in_order=True)), self.dimensions)

    def model(self) -> Model:
        """Read what was learned."""
        words = words_of(self._table.schema, self.location)
        if self._known_model is None or self._known_model[0] != words["digest"]:
            self._known_model = words["digest"], read_model(words, self.location)
        return self._known_model[1]

    def memory(self, fragments: Sequence[int] | None = None) -> AssociativeMemory:
        """The model over the patterns of the table, or of some of its parts; its rows are those of `rows`."""
        patterns = self.rows(fragments).patterns
        if not len(patterns):
            raise ShapeError("`fragments` must hold at least one pattern, as a memory does; got none.")
        return over(self.model(), patterns, self.columns)

    def explain(self, query: RowsLike | Entries, *, against: object = None, group: object = None) -> Explanation:
        """Why this query is answered as it is, as `AssociativeMemory.explain` says; the whole table passes by once.

        Args:
            query: one row, (d,) or (1, d).
            against: the number of the rival in the table, or "unknown"; default the second answer.
            group: where the query comes from, if the memory was fitted with groups.
        """
        self._verify()
        model, names = self.model().for_group(group), self.columns
        asked = as_query(query, torch.empty(0, self.dimensions), names)
        chosen = settled_among(model, model.similarity, asked, lambda: self._batches(None))
        model = model if chosen is model.similarity else model.replaced(similarity=chosen)
        ranked = ranked_among(model, asked, 2, lambda: self._batches(None))
        assert ranked.patterns is not None
        ids, patterns = ranked.ids[0], ranked.patterns[0]
        if against is not None:
            rivals = Rows(ids[:0], patterns[:0], {}) if is_unknown(against) else self._row(against)
            ids, patterns = torch.cat([ids[:1], rivals.ids]), torch.cat([patterns[:1], rivals.patterns])
        return explain(model, ranked, Compared.of(ids, model.modulation(patterns), columns=names), asked)

    def index(
        self,
        pairs: Pairs | tuple[Array, Array] | None = None,
        *,
        variant: Variant | None = None,
        tolerance: float = 0.05,
        candidates: int = 100,
        candidate_similarity: Similarity | None = None,
        cache: str | os.PathLike[str] | None = None,
    ) -> StoredIndex:
        """An index of the version that this handle sees; the arguments are those of `ahop.index`.

        It is kept in files and found there again. They are a cache: where one is damaged it is built anew, with a
        warning. The patterns that are reranked stay on the disk until they are looked at.

        Args:
            pairs: (ids, copies): the numbers of the patterns that the copies come from.
            cache: the folder for these files. If None, `_cache` in the table's own folder; and no files where the
                table is in none.
        """
        options = {
            "variant": variant,
            "tolerance": tolerance,
            "candidates": candidates,
            "candidate_similarity": candidate_similarity,
        }
        self._verify()
        given = (pairs.origins, pairs.queries) if isinstance(pairs, Pairs) else pairs
        return indexed(
            self._table, self.location, self.model(), self.columns, self._batches(None), given, options, cache
        )

    # Writing.

    def add(self, patterns: RowsLike, ids: Array | None = None, metadata: Mapping[str, Any] | None = None) -> Tensor:
        """Store more patterns; returns their numbers.

        Args:
            ids: whole numbers that are not in the table yet; if None, they go on after the largest.
            metadata: the columns of the table, one entry for each pattern.

        Raises:
            InvalidValueError: some of the numbers are there already. Nothing is stored then.
        """
        self._check_open()
        stored = as_stored(patterns, self.dimensions, self.columns)
        given = None if ids is None else as_ids(ids, len(stored))
        return self._writer.change(self._table, lambda table: add_rows(self._writer, table, stored, given, metadata))

    def upsert(self, patterns: RowsLike, ids: Array, metadata: Mapping[str, Any] | None = None) -> None:
        """Store these patterns under these numbers, replacing what was there."""
        self._check_open()
        stored = as_stored(patterns, self.dimensions, self.columns)
        numbers = as_ids(ids, len(stored))
        self._writer.change(self._table, lambda table: upsert_rows(self._writer, table, stored, numbers, metadata))

    def remove(self, ids: Array) -> None:
        """Forget these patterns. Older versions keep them until `compact`."""
        self._check_open()
        numbers = as_ids(ids)
        self._writer.change(self._table, lambda table: remove_rows(self._writer, table, numbers))

    def learn(self, memory: AssociativeMemory) -> None:
        """Put the model of this memory in place of the one before; the patterns stay as they are."""
        self._check_open()
        model = as_model(memory)
        if memory.patterns.shape[1] != self.dimensions:
            raise ShapeError(
                f"`memory` must be of {self.dimensions} dimensions, as the stored patterns are; "
                f"got {memory.patterns.shape[1]}."
            )
        for place, (here, there) in enumerate(zip(memory.columns or (), self.columns or (), strict=False)):
            if here != there:
                raise InvalidValueError(
                    f"`memory` must have the dimensions of the stored patterns, in their order; dimension {place} is "
                    f"{there!r} in the table, and {here!r} in the memory."
                )
        self._writer.change(self._table, lambda table: replace_model(self._writer, table, model))

    def restore(self, version: int) -> None:
        """Go back: patterns and model become what they were in this version. What came after it stays a version too."""
        self._check_open()
        number = self.at(version).version  # says so if it is not kept
        self._writer.change(self._table, lambda table: restore(self._writer, table, number))

    def compact(self, keep: timedelta = KEPT, versions: int = MOST_VERSIONS, fragment_rows: int = 2**20) -> None:
        """Join small parts, and drop old versions: handles that still read them fail then.

        Args:
            keep: the age from which on versions are dropped.
            versions: how many are kept at most, the newest ones.
            fragment_rows: how many rows a part has at most.
        """
        self._check_open()
        most, rows = check_count("versions", versions), check_count("fragment_rows", fragment_rows)
        self._writer.change(self._table, lambda table: compact(self._writer, table, keep, most, rows))
        if self.location.folder is not None:
            kept = tuple(f"v{each.number}-" for each in self.versions())
            for file in (self.location.folder / CACHE).glob("v*"):
                if not file.name.startswith(kept):
                    file.unlink(missing_ok=True)

    @override
    def _recalled(
        self, queries: Queries, k: int, where: Mapping[str, object] | None, groups: Sequence[object] | None
    ) -> Recall[Tensor]:
        self._verify()
        model, count = self.model(), len(self)
        sql = None if where is None else as_filter(where, self._table.schema)
        return stream(model, queries, min(k, max(1, count)), lambda: self._batches(sql), count, groups)

    def _verify(self) -> None:
        """The files of this version are as they were written."""
        folder = self.location.folder
        if folder is None:
            return
        if not has_head(folder, self.version):
            raise UnavailableError(
                f"Version {self.version} of `{folder}` was dropped by `compact` since this handle saw it. `refresh()` "
                "it, or open the store anew."
            )
        verify_version(folder, self._table)

    def _check_open(self) -> None:
        if self._is_fixed:
            raise UnsupportedError(
                f"This handle stays at version {self.version} and only reads. Open the table without a `version`."
            )

    def _row(self, number: object) -> Rows:
        """The pattern of this number."""
        sought = as_id("against", number)
        found = rows_of(table_read(self._table.scanner(filter=f"{ID} = {int(sought)}")), self.dimensions)
        positions_of(sought, found.ids)  # says so if it is not there
        return found

    def _batches(self, sql: str | None) -> Iterator[Rows]:
        return batches_of(self._table, max(1, BATCH_BYTES // (4 * self.dimensions)), sql)

    def _parts(self, fragments: Sequence[int] | None) -> list[Any] | None:
        if fragments is None:
            return None
        known = {int(each.fragment_id): each for each in self._table.get_fragments()}
        missing = [each for each in fragments if int(each) not in known]
        if missing:
            raise InvalidValueError(f"`fragments` must be among {sorted(known)} of this version; got {missing}.")
        return [known[int(each)] for each in fragments]


def open_store(path: Address, version: int | None = None, storage_options: Mapping[str, str] | None = None) -> Store:
    """A table that `create_store` made.

    Where a power cut has torn the newest version of a table on a local disk, the one before is opened, with a warning:
    nothing that was acknowledged is lost by it.

    Args:
        path: a folder, or the address of an object store (`s3://`, `gs://`, `az://`).
        version: an older one, to read only; None for the newest.
        storage_options: what the object store asks for.
    """
    location = Location.of(path, storage_options)
    return Store(open_table(location, version), location, is_fixed=version is not None)
