"""One file for tensors and the words that explain them; nothing in it can run.

The file is a safetensors file whose header carries a JSON manifest. Nothing is unpickled, ever.
"""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from ahop._component import Component
from ahop.errors import FileFormatError, UnsupportedError

FORMAT = 1
KEY = "ahop"
FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
# Texts that grow with the patterns are tensors of bytes: the header has room for a hundred megabytes only.
TEXTS = ("labels",)


def describe(component: Component) -> dict[str, object]:
    """A component as plain data: its name and the arguments that made it, to any depth."""
    return {
        "component": type(component).__name__,
        "arguments": {name: _plain(value) for name, value in component.configuration().items()},
    }


def write_archive(path: str | os.PathLike[str], manifest: dict[str, object], tensors: dict[str, Tensor]) -> None:
    """Write beside the target, then move into place: a reader sees the old file or the new one, never half of it."""
    target = Path(path)
    words = {KEY: json.dumps({"format": FORMAT, **manifest})}
    contiguous = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}
    beside = target.with_name(f".{target.name}.{uuid4().hex}")
    try:
        beside.touch(exist_ok=False)  # fails in Python's own words where the folder is missing or closed
        save_file(contiguous, beside, metadata=words)
        _flush(beside)
        beside.replace(target)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
    if os.name == "posix":  # the new name must survive a power cut too, and only there can a folder be flushed
        _flush(target.parent)


def read_archive(
    path: str | os.PathLike[str], dtypes: Sequence[torch.dtype] | None = FLOATS
) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """The manifest and the tensors of a file that `write_archive` wrote, of these dtypes only; of any if None.

    `TEXTS` are for their readers to judge.
    """
    try:
        with safe_open(os.fspath(path), framework="pt") as archive:
            words = archive.metadata() or {}
            tensors = {name: archive.get_tensor(name) for name in archive.keys()}  # noqa: SIM118 - an archive is no dict
    except SafetensorError as error:
        raise FileFormatError(f"`{path}` is not a file that ahop wrote, or it is damaged: {error}.") from error
    try:
        manifest = json.loads(words[KEY])
        version = manifest.pop("format")
    except (KeyError, ValueError, AttributeError, TypeError, RecursionError) as error:
        raise FileFormatError(
            f"`{path}` holds tensors but no ahop manifest. Was it written by `memory.save`?"
        ) from error
    if version != FORMAT:
        raise FileFormatError(
            f"`{path}` has format {version!r}; this release reads format {FORMAT}. Update ahop to read newer files."
        )
    numbers = [tensor for name, tensor in tensors.items() if name not in TEXTS]
    if dtypes is not None and not all(tensor.dtype in dtypes for tensor in numbers):
        raise FileFormatError(f"`{path}` holds tensors that are no floating-point numbers; ahop writes no others.")
    return manifest, tensors


def _flush(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _plain(value: object) -> object:
    if isinstance(value, Component):
        return describe(value)
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if callable(value):
        raise UnsupportedError(
            f"A memory with a function in it, {getattr(value, '__name__', value)!r}, cannot be saved: nothing in a "
            "file can run. Keep the patterns and `memory.state_dict()`, and build it anew with the same function."
        )
    return value
