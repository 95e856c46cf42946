"""PyTorch, or one sentence that says how to get it: rooms that need it import this first."""

from ahop._core.optional import is_of_fit
from ahop.errors import MissingPackageError

try:
    import torch as _torch  # noqa: F401
except ModuleNotFoundError as error:
    if not is_of_fit(error):
        raise
    raise MissingPackageError("This needs PyTorch: `pip install 'ahop[fit]'`.") from error
