"""The idx format of MNIST: a few numbers that say the shape, then the bytes."""

from math import prod

import numpy as np
from numpy.typing import NDArray

from ahop.errors import FileFormatError

BYTES = 8  # the one kind of number that the datasets here use


def parse_idx(content: bytes, where: str, axes: int) -> NDArray[np.uint8]:
    """An array of `axes` axes. Its memory is that of the file: a shape that the file cannot fill is refused first."""
    if len(content) < 4 + 4 * axes:
        raise FileFormatError(f"`{where}` ends inside its header, at byte {len(content)}.")
    if content[:4] != bytes([0, 0, BYTES, axes]):
        raise FileFormatError(f"`{where}` is no idx file of {axes} axes of bytes: it begins with {content[:4].hex()}.")
    shape = tuple(int.from_bytes(content[at : at + 4], "big") for at in range(4, 4 + 4 * axes, 4))
    start = 4 + 4 * axes
    if len(content) != start + prod(shape):
        raise FileFormatError(
            f"`{where}` says it has the shape {shape}, which takes {prod(shape)} bytes from byte {start} on; "
            f"it has {len(content) - start}."
        )
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape).copy()
