"""Public addresses of modules that lie in rooms: `from ahop.adapters import FaissSearch`."""

import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import final


@final
class Addresses:
    """Import of one module by two addresses: there is one module, by its own name.

    Args:
        places: from the public address to where the module is.
    """

    def __init__(self, places: Mapping[str, str]) -> None:
        self.places = dict(places)
        self._specs: dict[str, ModuleSpec | None] = {}

    def install(self) -> None:
        """Be asked by every later import; once."""
        if not any(isinstance(each, Addresses) and each.places == self.places for each in sys.meta_path):
            sys.meta_path.append(self)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in self.places:
            return None
        return ModuleSpec(fullname, self)  # type: ignore[arg-type] # its base class would take long to import

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = import_module(self.places[spec.name])
        self._specs[spec.name] = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Give the module, which was run before, its own specification back."""
        address = next(each for each, place in self.places.items() if place == module.__name__)
        module.__spec__ = self._specs[address]
