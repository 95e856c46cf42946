"""Arrays that numpy saved together, read without the reader that could be made to run what a file says."""

from io import BytesIO
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ahop.errors import FileFormatError
from experiments.datasets._unpacking import members

LONGEST_HEADER = 1024


def parse_npz(content: bytes, where: str, names: tuple[str, ...], limit: int) -> dict[str, NDArray[Any]]:
    """Arrays of plain numbers by name, none of more than `limit` bytes."""
    found: dict[str, NDArray[Any]] = {}
    for member in members(BytesIO(content), ".zip", limit, where):
        name = member.name.removesuffix(".npy")
        if name in names:
            if member.size > limit:
                raise FileFormatError(f"`{where}`: `{name}` has {member.size} bytes; at most {limit} were expected.")
            found[name] = parse_npy(member.read(), f"{where}: {member.name}")
    if len(found) < len(names):
        raise FileFormatError(f"`{where}` must hold the arrays {', '.join(names)}; got {', '.join(found) or 'none'}.")
    return found


def parse_npy(content: bytes, where: str, kinds: str = "fiu") -> NDArray[Any]:
    """One array of these kinds of dtypes."""
    stream = BytesIO(content)
    try:
        version = np.lib.format.read_magic(stream)
        read_header = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
        shape, fortran, dtype = read_header[version](stream, max_header_size=LONGEST_HEADER)
    except (ValueError, KeyError, TypeError, SyntaxError, EOFError, RecursionError) as error:
        raise FileFormatError(f"`{where}` is no array that numpy saved: {error}.") from error
    start = stream.tell()
    if dtype.kind not in kinds or len(content) != start + prod(shape) * dtype.itemsize:
        raise FileFormatError(
            f"`{where}` must hold plain numbers that fill its shape; got {shape} of {dtype} in {len(content)} bytes."
        )
    flat = np.frombuffer(content, dtype, offset=start)
    return flat.reshape(shape, order="F" if fortran else "C").copy()
