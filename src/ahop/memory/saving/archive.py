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
from safetensors.torch import save as tensors_to_bytes
from safetensors.torch import save_file
from torch import Tensor

from ahop._core.files import replacing
from ahop.memory.saving.reading import FORMAT, KEY, Stored, checksum, no_floats, read_stored, stored_in

FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
# Texts that grow with the patterns are tensors of bytes: the header has room for a hundred megabytes only.
TEXTS = ("labels",)


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
    return _as_tensors(*read_stored(path), f"`{path}`", dtypes)


def archive_from_bytes(
    content: bytes, where: str, dtypes: Sequence[torch.dtype] | None = FLOATS
) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Read an archive from bytes; `where` names them in errors. `TEXTS` are for their readers to check."""
    return _as_tensors(*stored_in(content, where), where, dtypes)


def checksum_of(words: str, tensors: Mapping[str, Tensor]) -> str:
    """Checksum of the words, and of names, dtypes, shapes and bytes of the tensors."""
    return checksum(words, {name: _as_stored(values) for name, values in tensors.items()})


def _as_stored(values: Tensor) -> Stored:
    plain = values.detach().cpu().contiguous()
    content = plain.reshape(-1).view(torch.uint8).numpy().data if plain.numel() else b""
    return Stored(str(plain.dtype).removeprefix("torch."), tuple(plain.shape), content)


def _as_tensors(
    manifest: dict[str, Any], stored: Mapping[str, Stored], where: str, dtypes: Sequence[torch.dtype] | None
) -> tuple[dict[str, Any], dict[str, Tensor]]:
    tensors = {name: _as_tensor(each) for name, each in stored.items()}
    numbers = [tensor for name, tensor in tensors.items() if name not in TEXTS]
    if dtypes is not None and not all(tensor.dtype in dtypes for tensor in numbers):
        raise no_floats(where)
    return manifest, tensors


def _as_tensor(stored: Stored) -> Tensor:
    dtype: torch.dtype = getattr(torch, stored.dtype)
    if not len(stored.content):
        return torch.empty(stored.shape, dtype=dtype)
    return torch.frombuffer(stored.content, dtype=dtype).reshape(stored.shape)


def _plain(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Tensors that share no memory, as safetensors wants them."""
    return {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}


def _words(manifest: dict[str, object], tensors: Mapping[str, Tensor]) -> dict[str, str]:
    words = json.dumps({"format": FORMAT, **manifest})
    return {KEY: f"{checksum_of(words, tensors)} {words}"}
