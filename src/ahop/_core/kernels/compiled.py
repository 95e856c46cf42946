"""The compiled kernels, where the package was built with a compiler. Torch is not needed."""

from types import ModuleType

try:
    from ahop._core.kernels import _native  # type: ignore[attr-defined]
except ImportError:  # built without a compiler
    _native = None

native: ModuleType | None = _native

# What the kernels serve.
MOST_DIMENSIONS = 4096
