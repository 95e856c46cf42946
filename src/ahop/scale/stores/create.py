"""Create a store, atomically."""

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from uuid import uuid4

import torch

from ahop._core import optional
from ahop._core.checks import check_count, check_kind
from ahop._core.files import flush, make_folder
from ahop._core.free_memory import check_free_memory
from ahop._core.tensors import saturate
from ahop._core.typing import Array
from ahop.errors import InvalidValueError
from ahop.memory.memory import AssociativeMemory
from ahop.memory.model import Model
from ahop.scale.stores.location import Address, Location
from ahop.scale.stores.models import as_model, describe_model
from ahop.scale.stores.names import describe_names
from ahop.scale.stores.store import Store, open_store
from ahop.scale.stores.table_rows import as_ids, schema_of, table_of
from ahop.scale.stores.writer import Writer
from ahop.scale.stores.written import check_written


def create_store(
    path: Address,
    memory: AssociativeMemory,
    ids: Array | None = None,
    metadata: Mapping[str, Any] | None = None,
    *,
    fragment_rows: int = 2**20,
    storage_options: Mapping[str, str] | None = None,
) -> Store:
    """A new table with the patterns of a memory, the names of their dimensions, and all that the memory has learned.

    Args:
        path: a folder that is not there yet, or the address of an object store (`s3://`, `gs://`, `az://`).
        ids: whole numbers, one for each pattern; default 0, 1, 2, ...
        metadata: columns of words, numbers, or true and false, one entry for each pattern. Those that are added later
            have the same columns.
        fragment_rows: how many rows a part of the table has at most. Machines share a table by its parts.
        storage_options: what the object store asks for.

    Raises:
        UnsupportedError: the memory has a prior, or weights, for each pattern by itself.
    """
    location = Location.of(path, storage_options)
    model = as_model(check_kind("memory", memory, AssociativeMemory))
    check_free_memory(2 * memory.patterns.nbytes, f"{len(memory)} patterns on their way")
    patterns = saturate(memory.patterns, torch.float32).detach().cpu().contiguous()
    numbers = torch.arange(len(patterns)) if ids is None else as_ids(ids, len(patterns))
    rows, names = check_count("fragment_rows", fragment_rows), describe_names(memory.columns)
    if location.folder is None:
        return Store(_write(location, model, names, numbers, patterns, metadata, rows), location)
    _refuse_used(location.folder)
    make_folder(location.folder.parent)
    beside = location.folder.with_name(f".{location.folder.name}.{uuid4().hex}")
    try:
        staged = Location.of(beside, storage_options)
        table = _write(staged, model, names, numbers, patterns, metadata, rows)
        check_written(beside, (each.metadata.to_json() for each in table.get_fragments()))
        Writer(staged).flush()
        try:
            beside.rename(location.folder)
        except OSError:
            _refuse_used(location.folder)  # somebody was faster
            raise
    finally:
        shutil.rmtree(beside, ignore_errors=True)
    flush(location.folder.parent)
    return open_store(path, storage_options=storage_options)


def _write(
    location: Location,
    model: Model,
    names: dict[str, str],
    ids: torch.Tensor,
    patterns: torch.Tensor,
    metadata: Mapping[str, Any] | None,
    rows: int,
) -> Any:
    words = describe_model(model, location, uuid4().hex) | names
    schema = schema_of(patterns.shape[1], metadata or {}, words)
    table = table_of(schema, ids, patterns, metadata)
    try:
        return optional.lance().write_dataset(
            table, location.address, max_rows_per_file=rows, storage_options=location.options
        )
    except OSError as error:
        if "already exists" in str(error):
            raise _used(location.address) from error
        raise


def _refuse_used(folder: Path) -> None:
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise _used(folder)


def _used(where: Address) -> InvalidValueError:
    return InvalidValueError(f"`path` must be new; `{where}` is there already. Open it with `open_store`.")
