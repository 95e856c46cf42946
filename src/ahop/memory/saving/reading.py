"""Read an archive: its manifest, and the bytes of its tensors, once the checksum fits. Torch is not needed."""

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, deserialize

from ahop._core.files import digest
from ahop._core.free_memory import check_free_memory
from ahop._core.json import parse_json
from ahop.errors import FileFormatError

FORMAT = 2
KEY = "ahop"
# Before the header stands how long it is.
LENGTH_BYTES = 8
# Kinds of number as a file calls them, and as torch and numpy do; numpy has no bfloat16.
KINDS: Final[dict[str, str]] = {
    "F64": "float64",
    "F32": "float32",
    "F16": "float16",
    "BF16": "bfloat16",
    "I64": "int64",
    "I32": "int32",
    "I16": "int16",
    "I8": "int8",
    "U8": "uint8",
    "BOOL": "bool",
}
FLOATS = ("float16", "bfloat16", "float32", "float64")


@dataclass(frozen=True)
class Stored:
    """One tensor of a file.

    Attributes:
        dtype: as torch and numpy call it.
        content: its bytes, the lowest first.
    """

    dtype: str
    shape: tuple[int, ...]
    content: bytes | memoryview

    def array(self) -> NDArray[Any]:
        """The numbers; those of bfloat16 in single precision, which holds them."""
        if self.dtype == "bfloat16":
            high = np.frombuffer(self.content, np.uint16).astype(np.uint32)
            return (high << 16).view(np.float32).reshape(self.shape)
        return np.frombuffer(self.content, np.dtype(self.dtype)).reshape(self.shape)


def read_stored(path: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, Stored]]:
    """The manifest and the tensors of a file, read at once and checked."""
    check_free_memory(2 * os.path.getsize(path), f"`{path}`")
    return stored_in(Path(path).read_bytes(), f"`{path}`")


def stored_in(content: bytes, where: str) -> tuple[dict[str, Any], dict[str, Stored]]:
    """Manifest and tensors of bytes; `where` names these in errors."""
    if sys.byteorder == "big":
        raise FileFormatError(f"{where} cannot be read here: the machine puts the highest byte first.")
    try:
        tensors = {
            name: Stored(KINDS[each["dtype"]], tuple(each["shape"]), memoryview(each["data"]))
            for name, each in deserialize(content)  # type: ignore[no-untyped-call]
        }
    except (SafetensorError, KeyError, ValueError, RuntimeError, OverflowError) as error:
        raise FileFormatError(f"{where} is not a file that ahop wrote, or it is damaged: {error}.") from error
    try:
        length = int.from_bytes(content[:LENGTH_BYTES], "little")
        header = parse_json(content[LENGTH_BYTES : LENGTH_BYTES + length])
        written, words = header["__metadata__"][KEY].split(" ", 1)
        manifest = parse_json(words)
        version = manifest.pop("format")
    except (KeyError, ValueError, AttributeError, TypeError) as error:
        raise FileFormatError(
            f"{where} holds tensors but no ahop manifest. Was it written by `memory.save`?"
        ) from error
    if version != FORMAT:
        raise FileFormatError(
            f"{where} has format {version!r}; this release reads format {FORMAT}. Update ahop to read newer files."
        )
    if written != checksum(words, tensors):
        raise FileFormatError(f"{where} is damaged: its checksum does not fit what is in it. Restore it from a copy.")
    return manifest, tensors


def checksum(words: str, tensors: Mapping[str, Stored]) -> str:
    """Checksum of the words, and of names, dtypes, shapes and bytes of the tensors."""
    parts: list[bytes | memoryview] = [words.encode()]
    for name in sorted(tensors):
        each = tensors[name]
        parts.append(f"\n{name} torch.{each.dtype} {each.shape}\n".encode())
        parts.append(each.content)
    return digest(*parts)


def no_floats(where: str) -> FileFormatError:
    return FileFormatError(f"{where} holds tensors that are no floating-point numbers; ahop writes no others.")
