"""`Plans`: the plan of a memory, made at its first use."""

from typing import Any, final

import torch
from torch import Tensor
from torch.nn import Module

from ahop._core.typing import Patterns
from ahop.memory.model import Model
from ahop.memory.planning import Plan, plan_of
from ahop.memory.reference import Reference

# Of the attributes of a module, those that may change its scores.
PARTS = (int, float, Tensor, Module)


@final
class Plans:
    """The plan of a model and its patterns, made at its first use and anew where either has changed in place."""

    def __init__(self) -> None:
        self._kept: _Kept | None = None

    def __reduce__(self) -> tuple[type["Plans"], tuple[()]]:
        return Plans, ()  # a copy makes its own

    @property
    def plan(self) -> Plan | None:
        """The one that answered last."""
        return None if self._kept is None else self._kept.plan

    def of(self, model: Model, patterns: Patterns, log_prior: Tensor | None) -> Plan | None:
        """The plan; None where torch answers."""
        if torch.compiler.is_compiling():
            return None
        kept = self._kept  # another thread may make one too
        if kept is None or not kept.is_fresh():
            kept = self._kept = _Kept(model, patterns, log_prior)
        return kept.plan


class _Kept:
    """A plan, and the state of all that it was made from."""

    def __init__(self, model: Model, patterns: Patterns, log_prior: Tensor | None) -> None:
        self._places = _places(model)
        tensors = [patterns, *([] if log_prior is None else [log_prior]), *model.buffers(), *model.parameters()]
        is_counted = not any(each.is_inference() for each in tensors)  # else nobody counts what is done to them
        self._versions = [(each, each._version) for each in tensors] if is_counted else []
        is_planned = is_counted and patterns.dtype == torch.float32 and patterns.device.type == "cpu"
        self.plan = plan_of(model, patterns.detach().numpy(), log_prior) if is_planned else None

    def is_fresh(self) -> bool:
        return all(found.get(name) is value for found, name, value in self._places) and all(
            tensor._version == seen for tensor, seen in self._versions
        )


def _places(model: Module) -> list[tuple[dict[str, Any], str, Any]]:
    """Parts and numbers of the model."""
    found: list[tuple[dict[str, Any], str, Any]] = []
    for module in model.modules():
        if isinstance(module, Reference):  # answers nothing
            continue
        for kept in (vars(module), module._parameters, module._buffers, module._modules):
            found += [(kept, name, each) for name, each in kept.items() if isinstance(each, PARTS)]
    return found
