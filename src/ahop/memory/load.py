"""Load memories and models."""

import os
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from ahop._core.columns import as_columns
from ahop._core.component import Component
from ahop._core.label_tensors import from_text
from ahop.errors import FileFormatError
from ahop.memory.memory import AssociativeMemory
from ahop.memory.model import Model
from ahop.memory.saving.archive import archive_from_bytes, archive_to_bytes, read_archive
from ahop.memory.saving.description import describe_model
from ahop.memory.saving.kept_report import kept_report
from ahop.memory.saving.registry import FAILURES, build, registry


def load(path: str | os.PathLike[str], components: Sequence[type[Component]] = ()) -> AssociativeMemory:
    """The memory that `memory.save(path)` wrote, bit for bit. What happens to the file later changes nothing.

    Args:
        components: classes of your own that the memory was made of, such as a `Similarity`. A file can name these and
            the parts of ahop, and nothing else.

    Raises:
        FileFormatError: the file is damaged, was written by a newer release, or names a part that is not known here.
    """
    known = registry(components)
    manifest, tensors = read_archive(path)
    labels = tensors.pop("labels", None)
    try:
        model = _model_of(manifest, known)
        memory = AssociativeMemory(tensors["patterns"], model=model, log_prior=tensors.get("log_prior"))
        memory.labels = None if labels is None else from_text(labels, len(memory))
        memory.columns = as_columns(manifest, memory.patterns.shape[1])
        memory.load_state_dict(tensors, assign=True)
    except FAILURES as error:
        raise FileFormatError(f"`{path}` does not describe a memory that this release can build: {error}") from error
    return memory


def model_to_bytes(model: Model) -> bytes:
    return archive_to_bytes(describe_model(model), model.state_dict())


def model_from_bytes(content: bytes, where: str, components: Sequence[type[Component]] = ()) -> Model:
    """The model that `model_to_bytes` wrote; `where` names the bytes in errors."""
    known = registry(components)
    manifest, tensors = archive_from_bytes(content, where)
    try:
        model = _model_of(manifest, known)
        model.load_state_dict(tensors, assign=True)
    except FAILURES as error:
        raise FileFormatError(f"{where} does not describe a model that this release can build: {error}") from error
    return model


def _model_of(manifest: dict[str, Any], known: Mapping[str, type[Component]]) -> Model:
    # Shapes alone, until the tensors of the file take their places: no number in it can ask for memory.
    with torch.device("meta"):
        parts = {name: build(part, known) for name, part in manifest["model"].items()}
        groups = {str(name): build(each, known) for name, each in manifest.get("groups", {}).items()}
        return Model(**parts, groups=groups, report=kept_report(manifest.get("report")))
