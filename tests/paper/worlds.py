"""Small worlds of patterns, and tensors for hypothesis."""

import torch
from hypothesis import settings
from hypothesis import strategies as st
from torch import Tensor

# Few, repeatable examples: each of these laws is a formula, and the loops they are checked against are slow.
few = settings(max_examples=25, deadline=None, derandomize=True)


def uniform_patterns(count: int, dimensions: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    """As in the paper's experiments: patterns uniform on [-1, 1]."""
    generator = torch.Generator().manual_seed(seed)
    return 2 * torch.rand(count, dimensions, generator=generator, dtype=dtype) - 1


def gaussian(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def vectors(dimensions: int, largest: float = 4.0) -> st.SearchStrategy[Tensor]:
    numbers = st.floats(-largest, largest, width=32, allow_subnormal=False)
    return st.lists(numbers, min_size=dimensions, max_size=dimensions).map(
        lambda values: torch.tensor(values, dtype=torch.float64)
    )


def matrices(rows: int, dimensions: int, largest: float = 4.0) -> st.SearchStrategy[Tensor]:
    return vectors(rows * dimensions, largest).map(lambda values: values.view(rows, dimensions))


def four_standard_errors(share: float, count: int) -> float:
    """How far a share measured on `count` queries may fall from the true one."""
    return 4 * float((share * (1 - share) / count) ** 0.5)
