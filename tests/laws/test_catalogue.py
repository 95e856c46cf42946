"""No part is forgotten: each stands in the catalogue, among the public names, and in the list of what files name."""

import inspect

import pytest

import ahop
from ahop import zoo
from ahop._core.component import Component
from ahop.fitting import fit
from ahop.memory.saving import registry
from tests.catalogue import DYNAMICS, FAMILIES, SOLVERS, ZOO, components

catalogued = {type(part) for part in (*components(), *(make(3) for make in DYNAMICS.values()), *SOLVERS.values())}
FACES = (
    *(ahop.similarities, ahop.separations, ahop.modulations, ahop.variants, ahop.energies, ahop.transforms),
    *(ahop.dynamics, ahop.fitting, ahop.likelihood, ahop.unknown, ahop.reference),
)
public_names = [getattr(face, name) for face in FACES for name in getattr(face, "__all__", vars(face))]
exported = [each for each in public_names if inspect.isclass(each) and not inspect.isabstract(each)]


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.__name__)
def test_every_public_part_is_in_the_catalogue(family: type) -> None:
    public = {kind for kind in exported if inspect.isclass(kind) and issubclass(kind, family)}
    assert public
    assert public <= catalogued


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.__name__)
def test_every_finished_part_is_public(family: type) -> None:
    ours = {kind for kind in _below(family) if kind.__module__.startswith("ahop.")}  # tests have some of their own
    assert {kind for kind in ours if not inspect.isabstract(kind)} <= set(exported)


def test_every_solver_is_in_the_catalogue() -> None:
    assert set(fit.SOLVERS.values()) <= catalogued
    assert set(fit.SOLVERS.values()) <= set(exported)


def test_every_network_of_the_zoo_is_in_the_catalogue() -> None:
    networks = {
        name for name, value in vars(zoo).items() if inspect.isfunction(value) and value.__module__ == zoo.__name__
    }
    assert networks == set(ZOO)


def test_a_file_can_name_every_component_but_functions_and_no_other() -> None:
    families = tuple(family for family in FAMILIES if issubclass(family, Component))
    kinds = (*families, ahop.unknown.UnknownDetector, ahop.reference.Reference)
    public = {kind for kind in exported if inspect.isclass(kind) and issubclass(kind, kinds)}
    public.remove(ahop.similarities.CallableSimilarity)  # nothing in a file can run
    assert set(registry.COMPONENTS.values()) == public
    assert {name: kind.__name__ for name, kind in registry.COMPONENTS.items()} == {n: n for n in registry.COMPONENTS}


@pytest.mark.parametrize("part", components(), ids=repr)
def test_a_name_is_one_line_that_tells_the_arguments(part: Component) -> None:
    assert "\n" not in repr(part)
    assert repr(part).startswith(f"{type(part).__name__}(")
    for name in part.configuration():
        assert f"{name}=" in repr(part)


@pytest.mark.parametrize("part", components(), ids=repr)
def test_the_configuration_rebuilds_the_part(part: Component) -> None:
    again = type(part)(**part.configuration())
    assert repr(again) == repr(part)
    assert {name: value.shape for name, value in again.state_dict().items()} == {
        name: value.shape for name, value in part.state_dict().items()
    }


def test_names_of_the_package_are_sorted_and_true() -> None:
    assert sorted(ahop.__all__) == ahop.__all__
    assert len(set(ahop.__all__)) == len(ahop.__all__)


def _below(kind: type) -> set[type]:
    children: list[type] = kind.__subclasses__()
    return {kind}.union(*(_below(child) for child in children))
