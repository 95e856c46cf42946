"""Examples in docstrings do what they say."""

import doctest
import pkgutil
from importlib import import_module
from types import ModuleType

import numpy as np
import pytest
import sklearn.datasets
import torch

import ahop

# What a reader has at hand beside the module itself.
AT_HAND = {
    "ahop": ahop,
    "np": np,
    "torch": torch,
    "sklearn": sklearn,
    **{name: getattr(ahop, name) for name in ahop.__all__},
}


def with_examples() -> list[ModuleType]:
    modules = [
        import_module(each.name)
        for each in pkgutil.walk_packages(ahop.__path__, "ahop.")
        if not each.name.endswith("_native")
    ]
    return [module for module in modules if any(test.examples for test in doctest.DocTestFinder().find(module))]


@pytest.mark.parametrize("module", with_examples(), ids=lambda module: module.__name__)
def test_the_examples_of_a_module_run(module: ModuleType) -> None:
    torch.manual_seed(0)
    done = doctest.testmod(module, extraglobs=AT_HAND, optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    assert done.attempted
    assert not done.failed
