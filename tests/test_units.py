"""Copies that were rounded: the step of the grid is seen, and is no outlier."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from ahop.fitting.corruption.mixture import fit_mixture
from ahop.fitting.corruption.units import grain
from tests.strategies import seeds


def normal(rows: int, columns: int, seed: int = 0, std: float = 10.0) -> Tensor:
    return std * torch.randn(rows, columns, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def rounded(values: Tensor, step: float) -> Tensor:
    return step * (values / step).round()


@given(seed=seeds, step=st.sampled_from([0.01, 0.5, 1.0, 2.0, 5.0]), share=st.sampled_from([0.0, 0.5]))
def test_the_step_of_a_grid_is_found_also_among_gaps(seed: int, step: float, share: float) -> None:
    values = rounded(normal(80, 40, seed, std=10 * step), step)
    gaps = torch.rand(values.shape, generator=torch.Generator().manual_seed(seed)) < share
    assert grain(values.masked_fill(gaps, torch.nan)) == pytest.approx(step)


def test_whole_numbers_have_step_one_and_halves_a_half() -> None:
    assert grain(rounded(normal(50, 40), 1.0)) == 1.0
    assert grain(rounded(normal(50, 40), 0.5)) == 0.5
    assert grain(rounded(normal(50, 40), 1.0) - 100) == 1.0


@pytest.mark.parametrize(
    "values",
    [
        normal(50, 40),
        torch.full((50, 40), 3.0),
        torch.arange(7.0).repeat(50, 4),
        torch.full((50, 40), torch.nan),
        torch.empty(0, 40),
        torch.arange(10.0).unsqueeze(-1),
    ],
    ids=["continuous", "constant", "few values", "nothing observed", "no rows", "each value once"],
)
def test_what_lies_on_no_grid_has_no_step(values: Tensor) -> None:
    assert grain(values) == 0.0


@pytest.mark.parametrize("step", [0.0, 1.0])
@pytest.mark.parametrize("pairs", [40, 200])
def test_rounding_is_no_outlier(step: float, pairs: int) -> None:
    patterns = normal(60, 12)
    origins = torch.arange(pairs) % 60
    copies = patterns[origins] + normal(pairs, 12, seed=1, std=3.0)
    fitted = fit_mixture(patterns[origins], rounded(copies, step) if step else copies).variant
    assert float(fitted.outlier_rate.mean()) < 0.1
    assert float(fitted.std.median()) == pytest.approx(3.0, rel=0.2)
    assert float(fitted.bias.abs().max()) < 2.0


def test_outlier_among_rounded_values_is_still_seen() -> None:
    patterns, origins = normal(60, 12), torch.arange(240) % 60
    copies = patterns[origins] + normal(240, 12, seed=1, std=1.0)
    generator = torch.Generator().manual_seed(2)
    is_outlier = torch.rand(copies.shape, generator=generator) < 0.3
    copies = rounded(torch.where(is_outlier, normal(240, 12, seed=3, std=20.0), copies), 1.0)
    fitted = fit_mixture(patterns[origins], copies).variant
    assert float(fitted.outlier_rate.mean()) == pytest.approx(0.3, abs=0.08)
    assert float(fitted.std.median()) == pytest.approx(1.0, rel=0.3)
