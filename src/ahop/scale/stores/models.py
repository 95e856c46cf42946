"""The model of a store, kept with each version."""

import json
import re
import tempfile
from base64 import b64decode, b64encode
from pathlib import Path
from typing import Any
from uuid import uuid4

import torch

from ahop._core.checks import check_kind
from ahop._core.files import digest
from ahop._core.json import parse_json
from ahop.errors import FileFormatError, UnsupportedError
from ahop.memory.load import model_from_bytes, model_to_bytes
from ahop.memory.memory import AssociativeMemory
from ahop.memory.model import Model
from ahop.scale.stores.location import Location, files_of
from ahop.scale.stores.written import check_size

FORMAT = 1
WORDS = "ahop"
FOLDER = "_models"
FILE = rf"{FOLDER}/[0-9a-f]{{32}}\.ahop"
# A larger model gets a file of its own: what is in the words of a table is written again with every version.
LARGEST_IN_WORDS = 32 * 2**10


def as_model(memory: AssociativeMemory) -> Model:
    """The model of a memory, if that does not depend on its patterns one by one."""
    check_kind("memory", memory, AssociativeMemory)
    if memory.log_prior is not None:
        raise UnsupportedError(
            "A memory with a `log_prior` has a number for each of its patterns, which a store does not keep. Build it "
            "without one, or keep it in one file by `memory.save`."
        )
    memory.model.check_same_columns("A store")
    for similarity in (memory.similarity, *memory.model.groups.values()):
        if similarity.rows(slice(0, 1)) is not similarity:
            raise UnsupportedError(
                f"{similarity!r} has weights for each of its patterns, which a store does not keep. Fit a similarity "
                "that all patterns share, or keep the memory in one file by `memory.save`."
            )
    return memory.model


def over(model: Model, patterns: torch.Tensor, names: tuple[str, ...] | None = None) -> AssociativeMemory:
    """The model over stored patterns, which were checked when they were stored and may still lie on a disk.

    Args:
        names: of the dimensions.
    """
    memory = AssociativeMemory(patterns[:1], model=model)
    memory.patterns, memory.columns = patterns, names
    return memory


def describe_model(model: Model, location: Location, table: str) -> dict[str, str]:
    """The words of a table that carry a model, or name its file, which is then written."""
    content = model_to_bytes(model)
    found: dict[str, object] = {"format": FORMAT, "table": table, "digest": digest(content)}
    if location.is_in_memory or len(content) <= LARGEST_IN_WORDS:
        found["model"] = b64encode(content).decode()
    else:
        found["file"] = f"{FOLDER}/{uuid4().hex}.ahop"
        with tempfile.NamedTemporaryFile() as beside:
            beside.write(content)
            beside.flush()
            files_of(location).upload_file(beside.name, found["file"])
        if location.folder is not None:
            check_size(location.folder / str(found["file"]), len(content))
    return {WORDS: json.dumps(found)}


def words_of(schema: Any, location: Location) -> dict[str, Any]:
    """Read the description that a table carries."""
    try:
        words: dict[str, Any] = parse_json((schema.metadata or {})[WORDS.encode()])
        version = words["format"]
    except (KeyError, ValueError, TypeError) as error:
        raise FileFormatError(
            f"`{location.address}` is a table, but not one that `create_store` made: it carries no model."
        ) from error
    if version != FORMAT:
        raise FileFormatError(
            f"`{location.address}` has format {version!r}; this release reads format {FORMAT}. Update ahop to read "
            "newer tables."
        )
    return words


def read_model(words: dict[str, Any], location: Location) -> Model:
    """The model that the words of a table carry or name."""
    try:
        content = b64decode(words["model"]) if "model" in words else _download(words["file"], location)
    except (KeyError, TypeError, ValueError, OSError) as error:
        raise FileFormatError(f"The model of `{location.address}` cannot be read: {error}") from error
    if digest(content) != words.get("digest"):
        raise FileFormatError(
            f"The model of `{location.address}` is damaged: its checksum does not fit. Open an older version, or "
            "`learn` anew."
        )
    return model_from_bytes(content, f"The model of `{location.address}`")


def remove_models(location: Location, kept: set[str]) -> None:
    """Remove the files of models that no version names any more."""
    files = files_of(location)
    for each in files.list(FOLDER) if not location.is_in_memory else ():
        name = f"{FOLDER}/{Path(each).name}"
        if name not in kept:
            files.delete_file(name)


def _download(name: str, location: Location) -> bytes:
    if not re.fullmatch(FILE, name):
        raise ValueError(f"{name[:100]!r} is no file of a model")
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "model"
        files_of(location).download_file(name, str(target))
        return target.read_bytes()
