"""Changes to a table. Each makes at most one new version."""

import json
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import torch
from torch import Tensor

from ahop._core import optional
from ahop._core.typing import Array, Patterns
from ahop.errors import InvalidValueError
from ahop.memory.model import Model
from ahop.scale.stores.integrity import compact_lists, verify_version
from ahop.scale.stores.models import describe_model, remove_models, words_of
from ahop.scale.stores.numbers import check_numbers_left, remove_marks
from ahop.scale.stores.table_rows import ID, ids_of, positions_of, some_of, table_of, table_read
from ahop.scale.stores.writer import Writer
from ahop.scale.stores.written import check_written

# The words of Lance for rows that were to be new and are not.
FOUND = "found matching row"


def add_rows(
    writer: Writer, table: Any, patterns: Patterns, ids: Tensor | None, metadata: Mapping[str, Any] | None
) -> Tensor:
    if ids is not None:
        _refuse_known(ids, ids_of(table_read(table.scanner(columns=[ID]))))
    if not len(patterns):
        table_of(table.schema.remove_metadata(), torch.arange(0), patterns, metadata)  # says so if columns do not fit
        return torch.arange(0)
    start = writer.next_id(table) if ids is None else 0
    check_numbers_left(start, len(patterns))
    numbers = start + torch.arange(len(patterns)) if ids is None else ids
    rows = table_of(table.schema.remove_metadata(), numbers, patterns, metadata)
    try:
        writer.append(table, rows)
    except OSError as error:
        if FOUND not in str(error):
            raise
        # Another writer took these numbers since we looked: the next look decides.
        raise OSError(f"concurrent writers add the same numbers: {error}") from error
    if ids is None:
        writer.remember(table, start + len(numbers))
    return numbers


def upsert_rows(
    writer: Writer, table: Any, patterns: Patterns, ids: Tensor, metadata: Mapping[str, Any] | None
) -> None:
    rows = table_of(table.schema.remove_metadata(), ids, patterns, metadata)
    if len(ids):
        writer.merge(table, lambda builder: builder.when_matched_update_all().when_not_matched_insert_all(), rows)


def remove_rows(writer: Writer, table: Any, ids: Tensor) -> None:
    known = ids_of(table_read(table.scanner(columns=[ID])))
    positions_of(ids, known)  # raises if any is missing
    if len(ids) == len(known):
        raise InvalidValueError("`ids` names every stored pattern; a store keeps at least one.")
    if len(ids):
        if int(ids.max()) == int(known.max()):
            writer.keep_number(1 + int(ids.max()))
        rows = optional.pyarrow().table({ID: ids.numpy()})
        writer.merge(table, lambda builder: builder.when_matched_delete(), rows)


def replace_model(writer: Writer, table: Any, model: Model) -> None:
    words = words_of(table.schema, writer.location)
    described = describe_model(model, writer.location, words["table"])
    if writer.flusher is not None:
        writer.flusher.flush_data()
    table.update_schema_metadata(described)
    if writer.flusher is not None:
        writer.flusher.flush_versions()


def restore(writer: Writer, table: Any, version: int) -> None:
    """A new version that is as an old one was, patterns and model."""
    old = table.checkout_version(version)
    if writer.location.folder is not None:
        verify_version(writer.location.folder, old)
    writer.keep_number(writer.next_id(table))
    if writer.flusher is not None:
        writer.flusher.flush_data()
    old.restore()
    if writer.flusher is not None:
        writer.flusher.flush_versions()
    table.checkout_latest()


def compact(writer: Writer, table: Any, keep: timedelta, versions: int, fragment_rows: int) -> None:
    compaction = optional.lance().optimize.Compaction
    plan = compaction.plan(table, {"target_rows_per_fragment": fragment_rows})
    done = [task.execute(table) for task in plan.tasks]
    if writer.flusher is not None:
        for each in done:
            check_written(writer.flusher.folder, json.loads(each.json())["new_fragments"])
        writer.flusher.flush_data()
    if done:
        compaction.commit(table, done)
    writer.flush()
    table.checkout_latest()
    table.cleanup_old_versions(older_than=keep)
    beyond = [each["version"] for each in table.versions()[:-versions]]
    if beyond:
        table.cleanup_old_versions(versions=beyond)
    if writer.location.folder is not None:
        remove_marks(writer.location.folder)
        compact_lists(writer.location.folder)
    if writer.location.folder is not None:  # elsewhere another writer may be about to name a file that none names yet
        named = [words_of(table.checkout_version(each["version"]).schema, writer.location) for each in table.versions()]
        remove_models(writer.location, {words["file"] for words in named if "file" in words})


def _refuse_known(ids: Array, known: Tensor) -> None:
    there = torch.as_tensor(ids)[torch.isin(torch.as_tensor(ids), known)]
    if len(there):
        raise InvalidValueError(
            f"`ids` must be new; already there: {some_of(there)}. `upsert` stores new patterns under old numbers."
        )
