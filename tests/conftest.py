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

# Each test of theirs takes long and shares nothing with the next.
ONE_BY_ONE = {"tests/test_experiments.py", "tests/test_faults.py"}
# Of its slow tests, one in this many takes its turn where `AHOP_TURN` is a number, as in `.ci/run`; else all run.
TAKES_TURNS, TURNS = "tests/test_experiments.py", 3
# The machine has room for one Ray.
WITH_RAY = {"tests/test_ray.py", "tests/laws/test_recall.py"}
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
    """Files go as a whole to whoever is free: services, browsers and fits that a file shares are made once.

    Groups by marks say nothing to the newest pytest.
    """
    from xdist.scheduler import LoadScopeScheduling

    class Together(LoadScopeScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            file = nodeid.partition("::")[0]
            return nodeid if file in ONE_BY_ONE else "with Ray" if file in WITH_RAY else file

    config.option.loadscopereorder = False
    return Together(config, log)


def pytest_report_header() -> str:
    """Say in every log which tests this run leaves to others."""
    turn = os.environ.get("AHOP_TURN")
    return "all tests" if turn is None else f"slow tests of {TAKES_TURNS}: turn {int(turn) % TURNS + 1} of {TURNS}"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Files with slow tests come first where processes share the work: short ones fill the end of the run."""
    turn = os.environ.get("AHOP_TURN")
    if turn is not None:
        slow = [item for item in items if item.nodeid.startswith(TAKES_TURNS) and item.get_closest_marker("slow")]
        turning = [item for item in slow if item.get_closest_marker("alone") is None]
        waiting = {item for place, item in enumerate(turning) if (place - int(turn)) % TURNS}
        config.hook.pytest_deselected(items=list(waiting))
        items[:] = [item for item in items if item not in waiting]
    if hasattr(config, "workerinput"):
        long = {item.path for item in items if item.get_closest_marker("slow") is not None}
        items.sort(key=lambda item: item.path not in long)
