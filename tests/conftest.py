"""Every test runs with the shapes and types of `ahop` checked, and laws are tried on random cases."""

import os
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import jaxtyping
import pytest
import torch
from hypothesis import HealthCheck, register_random, settings
from torch import Tensor

# Their tests share a server, which takes long to start: one worker runs them all.
SERVED = {"tests/test_ray.py", "tests/test_object_stores.py", "tests/test_postgres.py"}
# scikit-learn's checks hand wrong types to constructors and want the complaint from `fit`, in its own words.
UNCHECKED = {"estimators"}
PACKAGE = find_spec("ahop")
assert PACKAGE is not None
assert PACKAGE.origin is not None
CHECKED = [f"ahop.{path.stem}" for path in Path(PACKAGE.origin).parent.iterdir() if path.stem not in UNCHECKED]
jaxtyping.install_import_hook(CHECKED, "beartype.beartype")

settings.register_profile(
    "ahop",
    deadline=None,
    derandomize=bool(os.environ.get("CI")),
    max_examples=int(os.environ.get("AHOP_EXAMPLES", "20")),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.load_profile("ahop")


class TorchRandom:
    """Lets hypothesis seed torch's own generator, so that a case that fails fails again."""

    def seed(self, *seed: int) -> None:
        torch.manual_seed(*seed)

    def getstate(self) -> Tensor:
        return torch.get_rng_state()

    def setstate(self, state: Tensor) -> None:
        torch.set_rng_state(state)


TORCH_RANDOM = TorchRandom()
register_random(TORCH_RANDOM)


@pytest.fixture(autouse=True)
def _same_numbers_every_time() -> None:
    torch.manual_seed(0)


@pytest.fixture
def unchecked() -> Iterator[None]:
    """Without beartype, as users run it: what reaches our own checks when nothing else stops it."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """Where the real data lies."""
    folder = os.environ.get("AHOP_DATA")
    if folder is None:
        pytest.skip("needs real data: set AHOP_DATA to the folder that holds it")
    return Path(folder)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Tests go one by one to whoever is free. (Groups by marks say nothing to the newest pytest.)"""
    from xdist.scheduler import LoadScopeScheduling

    class Together(LoadScopeScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            file = nodeid.partition("::")[0]
            return file if file in SERVED else nodeid

    return Together(config, log)
