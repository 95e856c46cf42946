"""Arrays of numpy and tensors of torch, told apart without importing torch."""

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeGuard, TypeVar

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import torch

# Arrays in, arrays out of the same kind.
Kind = TypeVar("Kind", "torch.Tensor", NDArray[Any])


def is_tensor(value: object) -> "TypeGuard[torch.Tensor]":
    """True for tensors of torch. Without torch there are none."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def to_numpy(value: Any) -> NDArray[Any]:
    """Copy a tensor to an array if it must be; arrays and lists are passed to `numpy.asarray`."""
    if not is_tensor(value):
        return np.asarray(value)
    import torch

    plain = value.detach().cpu()
    found: NDArray[Any] = (plain.float() if plain.dtype == torch.bfloat16 else plain).numpy()
    return found


def to_kind_of(given: object, found: NDArray[Any]) -> Any:
    """Numbers as a tensor on the device of `given` if that is a tensor; otherwise as they are."""
    if not is_tensor(given):
        return found
    import torch

    return torch.from_numpy(found).to(given.device)


def below_each_other(parts: Sequence[Kind]) -> Kind:
    """Arrays, or tensors, along their first axis."""
    given: Any = parts
    if not is_tensor(given[0]):
        return np.concatenate(given)  # type: ignore[return-value]
    import torch

    found: Any = torch.cat(given)
    return found  # type: ignore[no-any-return]
