"""Parquet, Feather and Arrow files; they need pyarrow, the extra `tables`."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ahop._core.free_memory import check_free_memory
from ahop._core.optional import arrow_files
from ahop.cli.tables.sheet import Column, Sheet, check_names
from ahop.errors import FileFormatError

# Compressed files grow: by more than this nobody's numbers do.
MOST_GROWTH = 3


def read_parquet(path: Path, keep: Iterable[str]) -> Sheet:
    arrow = arrow_files()
    try:
        with arrow.parquet.ParquetFile(path) as file:
            groups = [file.metadata.row_group(place) for place in range(file.metadata.num_row_groups)]
            size = max(sum(group.total_byte_size for group in groups), path.stat().st_size)
            check_free_memory(MOST_GROWTH * size, f"`{path}`, unpacked,")
            return _sheet(path, file.read(), frozenset(keep))
    except arrow.ArrowException as error:
        raise FileFormatError(f"`{path}` is no Parquet file that can be read: {error}") from error


def read_feather(path: Path, keep: Iterable[str]) -> Sheet:
    arrow = arrow_files()
    check_free_memory(MOST_GROWTH * path.stat().st_size, f"`{path}`, unpacked,")
    try:
        return _sheet(path, arrow.feather.read_table(path, memory_map=False), frozenset(keep))
    except arrow.ArrowException as error:
        raise FileFormatError(f"`{path}` is no Feather or Arrow file that can be read: {error}") from error


def _sheet(path: Path, table: Any, keep: frozenset[str]) -> Sheet:
    check_names(path, table.column_names)
    columns: dict[str, Column] = {}
    notes = []
    for name, values in zip(table.column_names, table.columns, strict=True):
        parts = _lists(name, values)
        if parts:
            notes.append(f"{path.name}: {name!r} holds lists of {len(parts)} numbers, taken as so many columns.")
        columns |= parts or {name: _column(name, values, keep)}
    return Sheet(path, columns, table.num_rows, has_names=True, notes=tuple(notes))


def _column(name: str, values: Any, keep: frozenset[str]) -> Column:
    types, kind = arrow_files().types, values.type
    if types.is_dictionary(kind):
        values, kind = values.cast(kind.value_type), kind.value_type
    if types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind) or types.is_decimal(kind):
        is_kept = types.is_integer(kind) and name in keep  # as text, where doubles would round
        words = [None if each is None else str(each) for each in values.to_pylist()] if is_kept else None
        return Column(name, _numbers(values), words)
    if types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind):
        words = values.to_pylist()
        told = next((each for each in words if each), None)
        return Column(name, None, words, "words" if told is None else f"words, such as {told[:40]!r}")
    if types.is_null(kind):
        return Column(name, np.full(len(values), np.nan))
    if types.is_temporal(kind):
        return Column(name, None, [None if each is None else str(each) for each in values.to_pylist()], "dates")
    return Column(name, None, None, f"values of the type {kind}")


def _lists(name: str, values: Any) -> dict[str, Column]:
    """A column of lists of numbers, all of one length, such as embeddings, as a column for each place."""
    types, kind = arrow_files().types, values.type
    is_list = types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)
    if not is_list or values.null_count or not len(values):
        return {}
    of = kind.value_type
    lengths = arrow_files().compute.list_value_length(values).unique().to_pylist()
    if len(lengths) != 1 or not lengths[0] or not (types.is_floating(of) or types.is_integer(of)):
        return {}
    table = _numbers(arrow_files().compute.list_flatten(values)).reshape(len(values), lengths[0])
    names = [f"{name}_{place}" for place in range(lengths[0])]
    return {each: Column(each, table[:, place]) for place, each in enumerate(names)}


def _numbers(values: Any) -> NDArray[Any]:
    """Floating-point numbers as they are, all others as doubles; NaN for what is null."""
    is_single = str(values.type) in ("float", "halffloat")
    kind = arrow_files().float32() if is_single else arrow_files().float64()
    return np.array(values.cast(kind, safe=False).to_numpy(zero_copy_only=False))
