"""Base class of layers: saving to a folder and loading from one."""

import json
import os
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from ahop._core.component import Component
from ahop._core.json import parse_json
from ahop.errors import FileFormatError
from ahop.memory.saving.archive import write_archive
from ahop.memory.saving.description import describe
from ahop.memory.saving.reading import FORMAT
from ahop.memory.saving.registry import COMPONENTS, FAILURES, build

CONFIGURATION, TENSORS = "config.json", "model.safetensors"


Kept = TypeVar("Kept", bound="Layer")


class Layer(Component):
    """A layer knows its arguments: `config.json` and `model.safetensors` are all of it. Nothing is unpickled."""

    # What a configuration can name besides the parts of a memory: the layers of this package, by their own definition.
    _LAYERS: ClassVar[dict[str, type[Component]]] = {}

    def __init_subclass__(cls, **arguments: Any) -> None:
        super().__init_subclass__(**arguments)
        if cls.__module__.startswith("ahop.nn."):
            Layer._LAYERS[cls.__name__] = cls

    def __call__(self, *inputs: Any, **options: Any) -> Tensor:
        outputs: Tensor = super().__call__(*inputs, **options)
        return outputs

    def save_pretrained(self, folder: str | os.PathLike[str]) -> None:
        """Write `config.json` and `model.safetensors` into a folder, which is made if it is not there."""
        target = Path(folder)
        target.mkdir(parents=True, exist_ok=True)
        manifest = describe(self)
        write_archive(target / TENSORS, {"layer": manifest}, self.state_dict())
        (target / CONFIGURATION).write_text(
            json.dumps({"format": FORMAT, **manifest}, indent=1) + "\n", encoding="utf-8"
        )

    @classmethod
    def from_pretrained(cls: type[Kept], folder: str | os.PathLike[str]) -> Kept:
        """The layer that `save_pretrained` wrote, bit for bit, ready for use (`eval`)."""
        source = Path(folder)
        if not source.is_dir():
            raise FileNotFoundError(
                f"`{folder}` is not a folder. Layers are read from disk only; for a model of a hub, download its "
                "folder first and pass that."
            )
        words = json_of(source / CONFIGURATION)
        try:
            tensors = load_file(source / TENSORS)
        except SafetensorError as error:
            raise FileFormatError(f"`{source / TENSORS}` is no safetensors file, or is damaged: {error}.") from error
        if words.get("format") != FORMAT:
            raise FileFormatError(
                f"`{source / CONFIGURATION}` has format {words.get('format')!r}; this release reads format {FORMAT}."
            )
        if words.get("component") != cls.__name__:
            raise FileFormatError(
                f"`{folder}` holds a `{words.get('component')}`, not a `{cls.__name__}`. Read it with the class that "
                "wrote it."
            )
        try:
            # Shapes alone, until the tensors of the file take their places: no number in it can ask for memory.
            with torch.device("meta"):
                layer = build({name: words[name] for name in ("component", "arguments")}, COMPONENTS | Layer._LAYERS)
            layer.load_state_dict(tensors, assign=True)
        except FAILURES as error:
            raise FileFormatError(
                f"`{folder}` does not describe a layer that this release can build: {error}"
            ) from error
        assert isinstance(layer, cls)
        return layer.train(False)


def json_of(path: Path) -> dict[str, Any]:
    try:
        words = parse_json(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise FileFormatError(f"`{path}` is not JSON: {error}.") from error
    if not isinstance(words, dict):
        raise FileFormatError(f"`{path}` must hold a JSON object; got {type(words).__name__}.")
    return words
