"""Is this the file that was published?"""

import hashlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ahop.errors import FileFormatError

BLOCK = 1 << 20


def check_content(content: bytes, digest: str | None, where: str) -> None:
    """Compare with the published digest, where there is one."""
    if digest is None:
        return
    kind = digest.partition(":")[0]
    # Git hashes a file behind a line that says its size: the one sum some publishers have given, without meaning to.
    opening = b"blob %d\0" % len(content) if kind == "git" else b""
    found = hashlib.new("sha1" if kind == "git" else kind, opening, usedforsecurity=False)
    found.update(content)
    _compare(f"{kind}:{found.hexdigest()}", digest, where)


def check_file(path: Path, digest: str | None, where: str) -> None:
    """The same for a file too large to hold."""
    if digest is None:
        return
    kind = digest.partition(":")[0]
    found = hashlib.new(kind, usedforsecurity=False)
    with path.open("rb") as file:
        while block := file.read(BLOCK):
            found.update(block)
    _compare(f"{kind}:{found.hexdigest()}", digest, where)


def check_numbers(found: str, digest: str | None, where: str) -> None:
    """Compare what was parsed with what a verified copy holds."""
    if digest is not None and found != digest:
        raise FileFormatError(
            f"`{where}` has the form of the published data, and other numbers: their digest is {found}, "
            f"expected {digest}. Get an official copy."
        )


def digest_of_rows(rows: NDArray[np.float64], labels: NDArray[np.int64]) -> str:
    """Of a table in its order."""
    found = hashlib.sha256(repr(rows.shape).encode())
    found.update(_bytes(rows))
    found.update(labels.astype("<i8").tobytes())
    return f"sha256:{found.hexdigest()}"


def digest_of_bags(bags: Sequence[NDArray[np.float64]], labels: NDArray[np.int64]) -> str:
    """Of bags in any order, with their instances in any order: a bag is a set, and copies keep no order."""
    each = sorted(
        hashlib.sha256(b"%d %d " % (label, bag.shape[1]) + _bytes(bag[np.lexsort(bag.T)])).digest()
        for bag, label in zip(bags, labels.tolist(), strict=True)
    )
    return f"sha256:{hashlib.sha256(b''.join(each)).hexdigest()}"


def _bytes(numbers: NDArray[np.float64]) -> bytes:
    return (numbers + 0.0).astype("<f8").tobytes()  # so that minus zero is zero


def _compare(found: str, digest: str, where: str) -> None:
    if found != digest:
        raise FileFormatError(
            f"`{where}` is not the published file, or is damaged: its digest is {found}, expected {digest}. "
            "Delete it and get an official copy."
        )
