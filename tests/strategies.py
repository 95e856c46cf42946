"""Random cases: hypothesis chooses the sizes and a seed, torch fills in the numbers."""

from dataclasses import dataclass

import numpy as np
import torch
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from torch import Tensor

seeds = st.integers(0, 2**31 - 1)
HUGE = float(np.float32(1e30))

# For laws that take long and are tried on many parts.
FEW = max(1, settings().max_examples // 2)


@dataclass(frozen=True)
class Problem:
    """Patterns and the queries that are held against them."""

    patterns: Tensor
    queries: Tensor

    @property
    def sizes(self) -> tuple[int, int]:
        """Dimensions and number of patterns, as the factories of the catalogue want them."""
        return self.patterns.shape[-1], self.patterns.shape[-2]


def problem(
    count: int = 5, dimensions: int = 4, batch: int = 3, seed: int = 0, dtype: torch.dtype = torch.float64
) -> Problem:
    generator = torch.Generator().manual_seed(seed)
    patterns = torch.randn(count, dimensions, generator=generator, dtype=dtype)
    return Problem(patterns, torch.randn(batch, dimensions, generator=generator, dtype=dtype))


problems = st.builds(
    problem,
    count=st.integers(1, 12),
    dimensions=st.integers(1, 9),
    batch=st.integers(0, 5),
    seed=seeds,
)


def with_gaps(case: Problem, share: float = 0.3, seed: int = 0) -> Problem:
    """The same with NaN at random: about `share` of all entries, and half that share of all rows, as a whole."""
    generator = torch.Generator().manual_seed(seed)

    def gapped(values: Tensor) -> Tensor:
        gaps = torch.rand(values.shape, generator=generator) < share
        gaps |= torch.rand(values.shape[:-1], generator=generator).unsqueeze(-1) < share / 2
        return values.masked_fill(gaps, torch.nan)

    return Problem(gapped(case.patterns), gapped(case.queries))


gapped_problems = st.builds(with_gaps, problems, share=st.sampled_from([0.05, 0.3, 0.8, 1.0]), seed=seeds)


def score_rows(largest: float = 10.0, smallest_count: int = 1) -> st.SearchStrategy[Tensor]:
    """Scores (b, n) in float64: smooth ones, ones full of ties, and constant rows."""
    shapes = st.tuples(st.integers(1, 3), st.integers(smallest_count, 6))
    smooth = st.floats(-largest, largest)
    tied = st.integers(-3, 3).map(lambda value: largest * value / 3)
    return shapes.flatmap(
        lambda shape: st.one_of(
            arrays(np.float64, shape, elements=smooth),
            arrays(np.float64, shape, elements=tied),
            arrays(np.float64, (shape[0], 1), elements=smooth).map(lambda column: np.repeat(column, shape[1], axis=1)),
        )
    ).map(torch.from_numpy)


def huge_arrays(rows: int, columns: int) -> st.SearchStrategy[Tensor]:
    """Values of any size up to 1e30, down to the subnormal, in float32."""
    values = st.one_of(
        st.floats(-HUGE, HUGE, width=32),
        st.sampled_from([0.0, HUGE, -HUGE, float(np.float32(1e-40)), 1.0, float(np.float32(1e19))]),
    )
    return arrays(np.float32, (rows, columns), elements=values).map(torch.from_numpy)
