"""Components, models and reports as plain data."""

from dataclasses import asdict

from ahop._core.component import Component
from ahop.errors import UnsupportedError
from ahop.memory.model import Model


def describe(component: Component) -> dict[str, object]:
    """A component as plain data: its name and the arguments that made it, to any depth."""
    return {
        "component": type(component).__name__,
        "arguments": {name: _plain(value) for name, value in component.configuration().items()},
    }


def describe_model(model: Model) -> dict[str, object]:
    """A model as plain data; its tensors are those of `state_dict`."""
    parts = {name: None if part is None else describe(part) for name, part in model.components().items()}
    described: dict[str, object] = {"model": parts}
    if model.group_names:
        described["groups"] = {name: describe(each) for name, each in model.groups.items()}
    if model.report is not None:
        described["report"] = {"kind": type(model.report).__name__, **asdict(model.report)}
    return described


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
