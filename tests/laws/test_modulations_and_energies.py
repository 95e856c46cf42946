"""What modulations and energies keep."""

import copy

import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck
from torch.func import functional_call
from torch.testing import assert_close

import ahop
from ahop.energies.base import Energy
from ahop.separations.base import Separation
from tests.catalogue import ENERGIES, MODULATIONS, SEPARATIONS
from tests.strategies import problem

every_modulation = pytest.mark.parametrize("name", MODULATIONS)
every_energy = pytest.mark.parametrize("energy", ENERGIES, ids=repr)
both_dtypes = pytest.mark.parametrize("dtype", [torch.float32, torch.float64])


@every_modulation
@both_dtypes
@pytest.mark.parametrize(("count", "dimensions"), [(5, 4), (1, 1), (0, 3)])
def test_a_modulated_pattern_has_the_shape_and_dtype_of_the_pattern(
    name: str, dtype: torch.dtype, count: int, dimensions: int
) -> None:
    patterns = torch.randn(count, dimensions, dtype=dtype)
    modulated = MODULATIONS[name](dimensions)(patterns)
    assert modulated.shape == patterns.shape
    assert modulated.dtype == dtype


@every_modulation
def test_each_pattern_is_modulated_on_its_own(name: str) -> None:
    modulation, patterns = MODULATIONS[name](4), problem().patterns
    assert_close(modulation(patterns), torch.cat([modulation(row[None]) for row in patterns]))
    assert_close(modulation(patterns.expand(2, 5, 4))[1], modulation(patterns))


@every_modulation
def test_gradients_of_a_modulation_are_right(name: str) -> None:
    modulation = MODULATIONS[name](3).double()
    patterns = problem(dimensions=3).patterns.requires_grad_()
    parameters = {key: value.detach().requires_grad_() for key, value in modulation.named_parameters()}

    def modulated(patterns: Tensor, *values: Tensor) -> Tensor:
        found: Tensor = functional_call(modulation, dict(zip(parameters, values, strict=True)), (patterns,))
        return found

    gradcheck(modulated, (patterns, *parameters.values()))


def test_a_fresh_kernel_changes_nothing() -> None:
    patterns = problem().patterns
    assert torch.equal(ahop.modulations.KernelModulation(4)(patterns), patterns)


@pytest.mark.parametrize("name", ["kernel", "narrow kernel", "wide kernel"])
def test_a_dot_product_with_a_modulated_pattern_is_the_dot_product_in_kernel_space(name: str) -> None:
    case = problem()
    modulation = MODULATIONS[name](4).double()
    assert isinstance(modulation, ahop.modulations.KernelModulation)
    scores = ahop.DotSimilarity()(modulation(case.patterns), case.queries)
    projected, queries = case.patterns @ modulation.kernel.mT, case.queries @ modulation.kernel.mT
    assert_close(scores, ahop.DotSimilarity()(projected, queries))


@pytest.mark.parametrize("size", [0, -1])
def test_a_kernel_has_at_least_one_dimension(size: int) -> None:
    with pytest.raises(ahop.errors.InvalidValueError, match="`kernel_dimensions` must be a whole number"):
        ahop.modulations.KernelModulation(3, kernel_dimensions=size)


@pytest.mark.parametrize("name", ["kernel", "narrow kernel", "wide kernel"])
def test_a_kernel_refuses_what_was_not_observed(name: str) -> None:
    with pytest.raises(ahop.errors.UnsupportedError, match=r"A kernel mixes all dimensions.*Fill them first"):
        MODULATIONS[name](2)(torch.tensor([[1.0, torch.nan]]))


@every_energy
def test_what_was_not_observed_adds_nothing_to_the_confinement(energy: Energy) -> None:
    queries = torch.tensor([[1.0, torch.nan, 2.0]])
    for name in ("none", "kernel"):
        modulation = MODULATIONS[name](3)
        expected = energy.confinement(torch.tensor([[1.0, 0.0, 2.0]]), modulation)
        assert_close(energy.confinement(queries, modulation), expected)


@every_energy
@both_dtypes
@pytest.mark.parametrize("batch", [0, 1, 3])
def test_an_energy_is_one_number_for_each_query(energy: Energy, dtype: torch.dtype, batch: int) -> None:
    case = problem(batch=batch, dtype=dtype)
    scores = ahop.DotSimilarity()(case.patterns, case.queries)
    energies = energy(case.queries, scores, ahop.Softmax(), ahop.modulations.Unmodulated())
    assert energies.shape == (batch,)
    assert energies.dtype == dtype


@every_energy
@pytest.mark.parametrize("separation", SEPARATIONS, ids=repr)
def test_an_energy_is_the_confinement_less_the_potential(energy: Energy, separation: Separation) -> None:
    case, modulation = problem(), MODULATIONS["kernel"](4).double()
    scores = ahop.DotSimilarity()(case.patterns, case.queries)
    confinement = {
        ahop.energies.FreeEnergy: torch.zeros(3).double(),
        ahop.energies.QuadraticEnergy: 0.5 * torch.einsum("bd,bd->b", case.queries, modulation(case.queries)),
    }[type(energy)]
    assert_close(energy(case.queries, scores, separation, modulation), confinement - separation.potential(scores))


@every_energy
@pytest.mark.parametrize("separation", SEPARATIONS, ids=repr)
def test_gradients_of_an_energy_are_right(energy: Energy, separation: Separation) -> None:
    case, modulation = problem(count=3, dimensions=3, batch=2), MODULATIONS["kernel"](3).double()
    separation = copy.deepcopy(separation).double()

    def energies(queries: Tensor) -> Tensor:
        scores = ahop.DotSimilarity()(modulation(case.patterns), queries)
        return energy(queries, scores, separation, modulation)

    gradcheck(energies, (case.queries.requires_grad_(),))


def test_the_quadratic_energy_of_a_kernel_is_half_the_length_in_kernel_space() -> None:
    queries, modulation = problem().queries, ahop.modulations.KernelModulation(4, 2).double()
    lengths = 0.5 * (queries @ modulation.kernel.mT).square().sum(-1)
    assert_close(ahop.energies.QuadraticEnergy().confinement(queries, modulation), lengths)
