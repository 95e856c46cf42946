"""Modules of another package whose names are not taken over: whoever imports one is told what to use."""

from collections.abc import Callable


def elsewhere(module: str) -> Callable[[str], object]:
    """A module's `__getattr__` that refuses all names but those that Python itself asks for."""

    def refuse(name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)
        raise ImportError(
            f"`{module}.{name}` has no counterpart: its arguments are those of an attention that ahop has not got. Use "
            "`ahop.nn.Association`, which is the association alone, or the layers of `ahop.nn.compat.hflayers`."
        )

    return refuse
