"""The classes that a file can name."""

from collections.abc import Mapping, Sequence
from inspect import isabstract
from typing import Any

from ahop import energies, modulations, separations, similarities, transforms, variants
from ahop._core.component import Component
from ahop.errors import AhopError, InvalidTypeError, InvalidValueError
from ahop.memory import likelihood, reference, unknown

# What building from a description that makes no sense can raise.
FAILURES = (AhopError, ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError)

# Nothing in a file can run.
NOT_SAVED = (Component, similarities.CallableSimilarity)
# The public faces whose classes a file can name, and nothing else: no import, no attribute, no code from outside.
FACES = (energies, likelihood, modulations, reference, separations, similarities, transforms, unknown, variants)
COMPONENTS: dict[str, type[Component]] = {
    name: kind
    for face in FACES
    for name, kind in vars(face).items()
    if isinstance(kind, type) and issubclass(kind, Component) and not isabstract(kind) and kind not in NOT_SAVED
}
# More parts than any memory has; a file with more is not ours.
MOST_COMPONENTS = 1000


def registry(components: Sequence[type[Component]] = ()) -> Mapping[str, type[Component]]:
    """All parts of ahop, and these classes of the caller's, by name."""
    for kind in components:
        if not (isinstance(kind, type) and issubclass(kind, Component)):
            raise InvalidTypeError(
                f"`components` must be classes of your own parts, such as a subclass of `Similarity`; got {kind!r}."
            )
        if kind.__name__ in COMPONENTS and COMPONENTS[kind.__name__] is not kind:
            raise InvalidValueError(f"`components` has a class {kind.__name__!r}, as ahop has one. Rename yours.")
    return {**COMPONENTS, **{kind.__name__: kind for kind in components}}


def build(described: Any, components: Mapping[str, type[Component]] = COMPONENTS) -> Any:
    """The part that `describe` made plain data of; it can name the given classes, and nothing else."""
    if _count(described) > MOST_COMPONENTS:
        raise InvalidValueError(f"more than {MOST_COMPONENTS} parts are described.")
    return _build(described, components)


def _build(described: Any, components: Mapping[str, type[Component]]) -> Any:
    if isinstance(described, list):
        return [_build(item, components) for item in described]
    if isinstance(described, dict):
        arguments = {name: _build(value, components) for name, value in described["arguments"].items()}
        return components[described["component"]](**arguments)
    return described


def _count(described: Any) -> int:
    if isinstance(described, list):
        return sum(_count(item) for item in described if isinstance(item, list | dict))
    if isinstance(described, dict):
        return 1 + sum(_count(item) for item in described.values() if isinstance(item, list | dict))
    return 0
