"""Queries and answers as Arrow streams: columns of numbers without any text between them."""

import json
import struct
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ahop._core import optional
from ahop.errors import InvalidTypeError, InvalidValueError, ShapeError

STREAM = "application/vnd.apache.arrow.stream"
# The words of a schema that hold everything but the queries, as JSON; and the column that holds these.
WORDS, QUERY = b"ahop", "query"
# Places in the tables of Arrow's messages: the header of a message, and the compression of a batch.
HEADER, COMPRESSION = 2, 3


def read_arrow(body: bytes, dimensions: int, most: int) -> tuple[bytes, Tensor]:
    """The fields of a request, still JSON, and its queries (b, d); null is "not observed".

    Every buffer is checked against its length before it is looked at. Compressed buffers are refused: they could
    become larger than any limit.
    """
    arrow = optional.pyarrow()
    ipc = optional.arrow_ipc()
    try:
        messages = ipc.MessageReader.open_stream(arrow.py_buffer(body))
        first = messages.read_next_message()
        if first.type != "schema":  # pyarrow would read it as one all the same, wherever that leads
            raise InvalidValueError("An Arrow stream must begin with its schema.")
        schema = ipc.read_schema(first)
        parts, count = [], 0
        for message in messages:
            if message.type != "record batch" or is_compressed(message.metadata.to_pybytes()):
                raise InvalidValueError("An Arrow stream must be plain: no dictionaries, and `compression=None`.")
            batch = ipc.read_record_batch(message, schema)
            count += batch.num_rows
            if count > most:
                raise ShapeError(f"`queries` must be at most {most} in a request. Send several requests.")
            batch.validate(full=True)
            parts.append(_numbers(batch.column(QUERY), dimensions))
    except (arrow.ArrowException, OSError, KeyError, StopIteration, struct.error, IndexError) as error:
        raise InvalidValueError(
            f"The body must be an Arrow stream with a column `{QUERY}` of lists of numbers: {str(error)[:200]}."
        ) from None
    rows = np.concatenate(parts) if parts else np.empty((0, dimensions), np.float32)
    if np.isinf(rows).any():
        raise InvalidValueError("`queries` must be finite numbers, or null where nothing was observed; got infinity.")
    return (schema.metadata or {}).get(WORDS, b"{}"), torch.from_numpy(rows)


def write_arrow(words: dict[str, Any]) -> bytes:
    """An answer: one row for each query, and everything else in the words of the schema."""
    arrow = optional.pyarrow()
    lists = {name: words.pop(name) for name in list(words) if isinstance(words[name], list)}
    columns = {name: arrow.array(values) for name, values in lists.items() if name != "explanations"}
    others = {**words, **{name: lists[name] for name in ("explanations",) if name in lists}}
    table = arrow.table(columns).replace_schema_metadata({WORDS: json.dumps(others).encode()})
    sink = arrow.BufferOutputStream()
    with optional.arrow_ipc().new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    found: bytes = sink.getvalue().to_pybytes()
    return found


def is_compressed(metadata: bytes) -> bool:
    """Whether the message says that its buffers are compressed; raises `struct.error` where it is cut off."""
    table = _field(metadata, struct.unpack_from("<I", metadata, 0)[0], HEADER)
    if table is None:
        return False
    batch = table + struct.unpack_from("<I", metadata, table)[0]
    return _field(metadata, batch, COMPRESSION) is not None


def _field(metadata: bytes, table: int, number: int) -> int | None:
    """Where the value of a field of a table lies; None if the table has not got it."""
    index = table - struct.unpack_from("<i", metadata, table)[0]
    size = struct.unpack_from("<H", metadata, index)[0]
    place = 4 + 2 * number
    offset = struct.unpack_from("<H", metadata, index + place)[0] if place + 2 <= size else 0
    return table + offset if offset else None


def _numbers(column: Any, dimensions: int) -> Any:
    types = optional.pyarrow().types
    is_list = types.is_list(column.type) or types.is_large_list(column.type) or types.is_fixed_size_list(column.type)
    if not is_list or not types.is_floating(column.type.value_type):
        raise InvalidTypeError(f"The column `{QUERY}` must hold lists of floats; got {str(column.type)[:100]}.")
    if column.null_count:
        raise InvalidTypeError(f"The column `{QUERY}` must have no row that is null; numbers in a row may be.")
    values = column.flatten()
    if len(values) != len(column) * dimensions or (
        not types.is_fixed_size_list(column.type) and (np.diff(column.offsets.to_numpy()) != dimensions).any()
    ):
        raise ShapeError(f"`queries` must be lists of {dimensions} numbers, as the patterns have.")
    edge = float(np.finfo(np.float32).max)
    with np.errstate(invalid="ignore"):  # NaN of whatever kind
        numbers = values.to_numpy(zero_copy_only=False).astype(np.float64)
        limited = np.where(np.isinf(numbers), numbers, np.clip(numbers, -edge, edge))
        return limited.astype(np.float32).reshape(len(column), dimensions)
