"""`Prepared`: results that depend on stored patterns and on no query, kept so that no query pays for them again."""

from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock
from typing import Any, TypeVar, final
from weakref import WeakKeyDictionary, WeakValueDictionary

import torch
from torch import Tensor
from torch.nn import Module

from ahop._core.component import Component
from ahop._core.missing import holds_nan

Made = TypeVar("Made")
# Of larger patterns nothing is kept: a second copy of one of these is a matter of memory.
MOST_BYTES = 128 * 2**20


@dataclass(frozen=True, eq=False)
class _State:
    """The state of patterns and of a part, by which a change in place shows."""

    version: int
    settings: list[dict[str, object]]
    tensors: list[Tensor]
    versions: list[int]

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, _State)
            and (self.version, self.settings, self.versions) == (other.version, other.settings, other.versions)
            and all(mine is theirs for mine, theirs in zip(self.tensors, other.tensors, strict=True))
        )

    __hash__ = None  # type: ignore[assignment]


@final
class Prepared:
    """Results made of one tensor of patterns at their first use. They live as long as this object is held.

    An owner of patterns, such as a memory, gets it from `prepared` and holds it; any number of threads may ask it. A
    result is made anew once the patterns, or the part that made it, have changed in place.
    """

    def __init__(self, patterns: Tensor) -> None:
        self.patterns = patterns
        self._made: WeakKeyDictionary[Any, tuple[int | _State, Any, Prepared | None]] = WeakKeyDictionary()
        self._lock = Lock()

    def __reduce__(self) -> tuple[Callable[[Tensor], "Prepared | None"], tuple[Tensor]]:
        return prepared, (self.patterns,)  # copies, in another process for one, make everything anew

    def get(self, make: Callable[[Tensor], Made], part: Module | None = None) -> Made:
        """The result of `make(patterns)`; see `derived`."""
        key, state = make if part is None else part, _state(self.patterns, part)
        with self._lock:
            found = self._made.get(key)
        if found is None or found[0] != state:
            with torch.inference_mode(False), torch.no_grad():
                made = make(self.patterns)
            again = None
            if isinstance(made, Tensor) and made is not self.patterns:
                again = prepared(made)  # another part may make more of it
            found = state, made, again
            with self._lock:
                self._made[key] = found
        result: Made = found[1]
        return result


_held: WeakValueDictionary[int, Prepared] = WeakValueDictionary()
_lock = Lock()


def prepared(patterns: Tensor) -> Prepared | None:
    """The one object for these patterns, for their owner to hold; None if they are too many, or change with a call."""
    if patterns.requires_grad or patterns.is_inference() or not worth_preparing(patterns):
        return None
    with _lock:
        found = _held.get(id(patterns))
        if found is None:
            found = _held[id(patterns)] = Prepared(patterns)
    return found


def worth_preparing(patterns: Tensor) -> bool:
    return patterns.nbytes <= MOST_BYTES


def held(patterns: Tensor) -> Prepared | None:
    """The object for these patterns, if somebody holds it."""
    if torch.compiler.is_compiling() or patterns.requires_grad:
        return None
    return _held.get(id(patterns))


def derived(patterns: Tensor, make: Callable[[Tensor], Made], part: Module | None = None, copies: int = 1) -> Made:
    """The result of `make(patterns)`, which depends on these patterns, on the state of a part of a model, and no query.

    Args:
        part: each part makes one result; None if a function makes it of the patterns alone.
        copies: how many times as large as the patterns it is.
    """
    kept = held(patterns)
    if kept is None or copies * patterns.nbytes > MOST_BYTES or (part is not None and _is_learning(part)):
        return make(patterns)
    return kept.get(make, part)


def have_gaps(patterns: Tensor, queries: Tensor) -> bool:
    """True if patterns or queries have values that were not observed."""
    return holds_nan(queries) or has_gaps(patterns)


def has_gaps(patterns: Tensor) -> bool:
    """True if patterns have values that were not observed."""
    return derived(patterns, holds_nan)


def _is_learning(part: Module) -> bool:
    return any(each.requires_grad or each.is_inference() for each in (*part.parameters(), *part.buffers()))


def _state(patterns: Tensor, part: Module | None) -> int | _State:
    """The version of the patterns is enough for a function; torch counts changes in place, and nothing else does."""
    if part is None:
        return patterns._version
    tensors = [*part.parameters(), *part.buffers()]
    settings = [each.configuration() for each in part.modules() if isinstance(each, Component)]
    return _State(patterns._version, settings, tensors, [each._version for each in tensors])
