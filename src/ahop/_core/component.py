"""Base class of all parts: each knows the arguments that it was made with."""

from torch import nn


class Component(nn.Module):
    """A part with a formula. Its arguments give it a one-line name and a place in a saved file."""

    def configuration(self) -> dict[str, object]:
        """The constructor arguments: numbers, strings, lists and other components, never tensors."""
        return {}

    def extra_repr(self) -> str:
        return ", ".join(f"{name}={value!r}" for name, value in self.configuration().items())

    def __repr__(self) -> str:
        # torch would print children on lines of their own; logs and test ids want one line.
        return f"{type(self).__name__}({self.extra_repr()})"
