"""Results that depend on stored patterns and on parts of a model alone, kept so that no query pays for them again.

An owner of patterns, such as a memory, calls `keep_derived` once; for all others everything is made anew.
"""

from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock
from typing import Any, TypeVar, final
from weakref import WeakKeyDictionary

import torch
from torch import Tensor
from torch.nn import Module

from ahop._core.missing import holds_nan

Made = TypeVar("Made")
# Of larger memories nothing is kept: a second copy of one of these is a matter of memory.
MOST_BYTES = 128 * 2**20
# Where a tensor keeps what was made of it.
KEPT = "_ahop_derived"
# Who asks whether patterns have gaps.
ANYONE = Module()


@dataclass(frozen=True)
class _State:
    """The state that a result was made from."""

    version: int
    tensors: list[Tensor]
    versions: list[int]
    settings: list[object]

    def is_same(self, other: "_State") -> bool:
        return (
            (self.version, self.versions, self.settings) == (other.version, other.versions, other.settings)
            and len(self.tensors) == len(other.tensors)
            and all(mine is theirs for mine, theirs in zip(self.tensors, other.tensors, strict=True))
        )


@final
class _Derived:
    """Results of modules for one tensor, while both live; and the state of both that they were made from."""

    def __init__(self) -> None:
        self._made: WeakKeyDictionary[Module, tuple[_State, Any]] = WeakKeyDictionary()
        self._lock = Lock()

    def __deepcopy__(self, _: object) -> "_Derived":
        return _Derived()

    def __reduce__(self) -> tuple[type["_Derived"], tuple[()]]:
        return _Derived, ()  # who copies a tensor otherwise, to another process for one, makes everything anew

    def get(self, module: Module, state: _State) -> Any:
        with self._lock:
            known = self._made.get(module)
        return known[1] if known is not None and known[0].is_same(state) else None

    def put(self, module: Module, state: _State, made: object) -> None:
        with self._lock:
            self._made[module] = state, made


def keep_derived(patterns: Tensor) -> None:
    """From now on, keep what is made of these patterns; unless they are too many, or change with every call."""
    if torch.compiler.is_compiling() or patterns.requires_grad or patterns.is_inference():
        return
    if patterns.nbytes <= MOST_BYTES and not hasattr(patterns, KEPT):
        setattr(patterns, KEPT, _Derived())


def derived(patterns: Tensor, module: Module, make: Callable[[], Made], copies: int = 1) -> Made:
    """Return what `make()` gives: a result that depends on these patterns and on the state of the module, and no query.

    Args:
        copies: how many times as large as the patterns it is.
    """
    if torch.compiler.is_compiling() or patterns.requires_grad or copies * patterns.nbytes > MOST_BYTES:
        return make()
    kept: _Derived | None = getattr(patterns, KEPT, None)
    if kept is None:
        return make()
    tensors = [*module.parameters(), *module.buffers()]
    if any(each.requires_grad or each.is_inference() for each in tensors):
        return make()
    state = _State(patterns._version, tensors, [each._version for each in tensors], _settings(module))
    found: Made | None = kept.get(module, state)
    if found is None:
        with torch.inference_mode(False), torch.no_grad():
            found = make()
        if isinstance(found, Tensor):
            if found is patterns:
                return found
            keep_derived(found)  # another part may make more of it
        kept.put(module, state, found)
    return found


def have_gaps(patterns: Tensor, queries: Tensor) -> bool:
    """True if patterns or queries have values that were not observed."""
    return holds_nan(queries) or has_gaps(patterns)


def has_gaps(patterns: Tensor) -> bool:
    """True if patterns have values that were not observed."""
    return derived(patterns, ANYONE, lambda: holds_nan(patterns))


def _settings(module: Module) -> list[object]:
    """Numbers and words that are no tensors."""
    return [value for part in module.modules() for value in vars(part).values() if isinstance(value, int | float | str)]
