"""Save and load indexes, with a checksum."""

import os
from json import dumps
from typing import Any

import torch
from torch import Tensor

from ahop._core.component import Component
from ahop.errors import FileFormatError, InvalidValueError
from ahop.memory.memory import AssociativeMemory
from ahop.memory.saving.archive import checksum_of, read_archive, write_archive
from ahop.memory.saving.description import describe
from ahop.memory.saving.registry import COMPONENTS, FAILURES, build
from ahop.scale.indexes.build import Measured
from ahop.scale.indexes.engines.base import Engine
from ahop.scale.indexes.engines.exact import ExactEngine
from ahop.scale.indexes.engines.faiss import FaissEngine
from ahop.scale.indexes.row_index import Index
from ahop.scale.liftings.base import Lifting
from ahop.scale.liftings.factored import FactoredLifting
from ahop.scale.liftings.gaussian import NuisanceLifting
from ahop.scale.liftings.products import CosineLifting, DotLifting, QuadraticLifting
from ahop.scale.liftings.wrapping import MovedLifting, SumLifting, TransformedLifting

LIFTINGS = (
    *(DotLifting, CosineLifting, QuadraticLifting, FactoredLifting, NuisanceLifting),
    *(MovedLifting, TransformedLifting, SumLifting),
)
NAMED: dict[str, type[Component]] = {**COMPONENTS, **{kind.__name__: kind for kind in LIFTINGS}}


def fingerprint(memory: AssociativeMemory) -> str:
    """A version of a memory: its parts and every number in it."""
    parts = [describe(memory.similarity), describe(memory.separation), describe(memory.modulation)]
    parts += [describe(each) for each in memory.model.groups.values()]
    return checksum_of(dumps([parts, memory.model.group_names], sort_keys=True), dict(memory.state_dict()))


def save_index(index: Index, path: str | os.PathLike[str]) -> None:
    """Write the index to one file, beside and then into place. The memory is not in it: save that by itself."""
    engine, lifting, tensors = index.engine, index.lifting, dict[str, Tensor]()
    if engine is not None and lifting is not None:
        tensors |= {f"index.{name}": value for name, value in engine.tensors().items()}
        tensors |= {f"lifting.{name}": value for name, value in lifting.state_dict().items()}
    tensors["removed"] = index.removed.to(torch.uint8)
    tensors = {name: value.detach().cpu().contiguous() for name, value in tensors.items()}
    words: dict[str, object] = {
        "lifting": None if lifting is None else describe(lifting),
        "index": None if engine is None else engine.settings(),
        "candidates": index.candidates,
        "scanned": index.scanned,
        "curve": [each.as_words() for each in index.curve],
        "memory": fingerprint(index.memory),
    }
    write_archive(path, {"words": words}, tensors)


def load_index(
    path: str | os.PathLike[str], memory: AssociativeMemory, metadata: dict[str, Any] | None = None
) -> Index:
    """The index that `save_index` wrote, of this very version of the memory.

    A file is trusted as far as its checksum shows damage, not malice: rebuild an index that comes from strangers.

    Raises:
        FileFormatError: the file is damaged, or no index.
        InvalidValueError: it is an index of another memory, or of another version of this one.
    """
    manifest, tensors = read_archive(path, dtypes=None)
    words = manifest.get("words")
    if not isinstance(words, dict):
        raise FileFormatError(f"`{path}` does not describe an index.")
    if words.get("memory") != fingerprint(memory):
        raise InvalidValueError(
            f"`memory` must be the one that `{path}` was built for, in the same version; its numbers differ. Build "
            "the index anew, or load the memory that was saved with it."
        )
    try:
        lifting, engine = (None, None) if words["index"] is None else _engine(words, tensors)
        curve = tuple(Measured(**each) for each in words["curve"])
        index = Index(memory, lifting, engine, words["candidates"], metadata, curve, words.get("scanned", 0))
        gone = tensors["removed"].bool().nonzero().squeeze(-1)
        if len(gone):
            index.remove(gone)
    except FAILURES as error:
        raise FileFormatError(f"`{path}` does not describe an index that this release can build: {error}") from error
    return index


def _engine(words: dict[str, Any], tensors: dict[str, Tensor]) -> tuple[Lifting, Engine]:
    with torch.device("meta"):
        lifting = build(words["lifting"], NAMED)
    if not isinstance(lifting, Lifting):
        raise InvalidValueError("no lifting is described.")
    lifting.load_state_dict(_under("lifting.", tensors), assign=True)
    settings, parts = words["index"], _under("index.", tensors)
    if settings["kind"] == "exact":
        return lifting, ExactEngine(parts["vectors"])
    return lifting, FaissEngine.restored(settings, parts)


def _under(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}
