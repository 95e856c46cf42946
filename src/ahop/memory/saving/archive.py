"""One file, or so many bytes, for tensors and the words that explain them; nothing in it can run.

It is a safetensors file whose header carries a JSON manifest and a checksum of everything. Nothing is ever unpickled.
"""

import json
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load as tensors_from_bytes
from safetensors.torch import save as tensors_to_bytes
from safetensors.torch import save_file
from torch import Tensor

from ahop._core.files import digest, replacing
from ahop._core.free_memory import check_free_memory
from ahop._core.json import parse_json
from ahop.errors import FileFormatError

FORMAT = 2
KEY = "ahop"
FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
# Texts that grow with the patterns are tensors of bytes: the header has room for a hundred megabytes only.
TEXTS = ("labels",)
# Before the header stands how long it is.
LENGTH_BYTES = 8


def write_archive(path: str | os.PathLike[str], manifest: dict[str, object], tensors: Mapping[str, Tensor]) -> None:
    """Write beside the target, then move into place: a reader sees the old file or the new one, never half of it."""
    kept = _plain(tensors)
    with replacing(Path(path)) as beside:
        write_tensors(beside, kept, _words(manifest, kept))


def write_tensors(path: Path, tensors: Mapping[str, Tensor], words: dict[str, str] | None = None) -> None:
    """Write a safetensors file; where the disk fails, an OSError says so."""
    try:
        save_file(dict(tensors), path, metadata=words)
    except SafetensorError as error:
        number = re.search(r"os error (\d+)", str(error))
        if number is None:
            raise
        raise OSError(int(number[1]), os.strerror(int(number[1])), str(path)) from error


def archive_to_bytes(manifest: dict[str, object], tensors: Mapping[str, Tensor]) -> bytes:
    kept = _plain(tensors)
    return tensors_to_bytes(kept, metadata=_words(manifest, kept))


def read_archive(
    path: str | os.PathLike[str], dtypes: Sequence[torch.dtype] | None = FLOATS
) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """The manifest and the tensors of a file that `write_archive` wrote, of these dtypes only; of any if None.

    They are read at once and checked: what happens to the file later changes nothing.
    """
    check_free_memory(2 * os.path.getsize(path), f"`{path}`")
    return archive_from_bytes(Path(path).read_bytes(), f"`{path}`", dtypes)


def archive_from_bytes(
    content: bytes, where: str, dtypes: Sequence[torch.dtype] | None = FLOATS
) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Read an archive from bytes; `where` names them in errors. `TEXTS` are for their readers to check."""
    try:
        tensors = tensors_from_bytes(content)
    except (SafetensorError, KeyError, ValueError, RuntimeError, OverflowError) as error:
        raise FileFormatError(f"{where} is not a file that ahop wrote, or it is damaged: {error}.") from error
    try:
        length = int.from_bytes(content[:LENGTH_BYTES], "little")
        header = parse_json(content[LENGTH_BYTES : LENGTH_BYTES + length])
        checksum, words = header["__metadata__"][KEY].split(" ", 1)
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
    if checksum != checksum_of(words, tensors):
        raise FileFormatError(f"{where} is damaged: its checksum does not fit what is in it. Restore it from a copy.")
    numbers = [tensor for name, tensor in tensors.items() if name not in TEXTS]
    if dtypes is not None and not all(tensor.dtype in dtypes for tensor in numbers):
        raise FileFormatError(f"{where} holds tensors that are no floating-point numbers; ahop writes no others.")
    return manifest, tensors


def checksum_of(words: str, tensors: Mapping[str, Tensor]) -> str:
    """Checksum of the words, and of names, dtypes, shapes and bytes of the tensors."""
    parts: list[bytes | memoryview] = [words.encode()]
    for name in sorted(tensors):
        values = tensors[name].detach().cpu().contiguous()
        parts.append(f"\n{name} {values.dtype} {tuple(values.shape)}\n".encode())
        parts.append(values.reshape(-1).view(torch.uint8).numpy().data if values.numel() else b"")
    return digest(*parts)


def _plain(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Tensors that share no memory, as safetensors wants them."""
    return {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}


def _words(manifest: dict[str, object], tensors: Mapping[str, Tensor]) -> dict[str, str]:
    words = json.dumps({"format": FORMAT, **manifest})
    return {KEY: f"{checksum_of(words, tensors)} {words}"}
