"""What importing the package costs, and what a large memory costs."""

import subprocess
import sys
from textwrap import dedent

import jaxtyping
import pytest
import torch

import ahop


def run(script: str) -> str:
    """What the script prints in a fresh interpreter, where nothing is imported yet and nothing is checked."""
    done = subprocess.run([sys.executable, "-c", dedent(script)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_the_tests_check_shapes_and_types() -> None:
    with pytest.raises(jaxtyping.TypeCheckError):
        ahop.DotSimilarity()(torch.zeros(2, 3), torch.zeros(2, 4))


def test_users_pay_for_no_checks_of_shapes() -> None:
    assert run("import ahop, sys; print('beartype' in sys.modules, hasattr(ahop.fit, '__wrapped__'))") == "False False"


def test_importing_the_package_imports_no_optional_one() -> None:
    banned = "matplotlib sklearn scipy pandas entmax beartype hypothesis pytest IPython PIL psutil sphinx experiments"
    imported = run("""
        import sys
        import numpy, torch
        before = set(sys.modules)
        import ahop
        ahop.AssociativeMemory, ahop.load, ahop.fit  # everything loads when it is asked for
        print(*sorted({name.split(".")[0] for name in set(sys.modules) - before}))
    """)
    assert "ahop" in imported.split()
    assert set(imported.split()).isdisjoint(banned.split())


def test_importing_the_package_does_not_wait_for_torch() -> None:
    assert run("import ahop, sys; print(ahop.__version__.count('.'), 'torch' in sys.modules)") == "2 False"


SHUT_OFF = "import sys; sys.modules.update(dict.fromkeys(('torch', 'jaxtyping', 'tqdm', 'typing_extensions')))\n"
WITHOUT_TORCH = {
    "FitReport",
    "Recall",
    "Runtime",
    "datasets",
    "errors",
    "open_memory",
    "policy",
    "posteriors",
    "report",
    "watch",
    "watching",
    "with_errors",
}


def test_every_name_does_without_torch_or_says_what_to_install() -> None:
    found = run(
        SHUT_OFF
        + """
import ahop
from ahop.errors import MissingPackageError
del sys.modules["typing_extensions"]  # others need it: httpx2, fastapi
for name in ahop.__all__:
    try:
        getattr(ahop, name)
        print(name, "works")
    except MissingPackageError as error:
        print(name, error)
"""
    )
    told = dict(line.split(" ", 1) for line in found.splitlines())
    assert told.keys() == set(ahop.__all__)
    assert {name for name, words in told.items() if words == "works"} == WITHOUT_TORCH | {"client"}
    assert all(
        words.endswith("eeds PyTorch: `pip install 'ahop[fit]'`.") for name, words in told.items() if words != "works"
    )


def test_rooms_that_need_torch_say_so() -> None:
    for room in ("similarities", "separations", "variants", "nn", "fitting", "plots", "estimators", "scale.indexes"):
        told = run(f"{SHUT_OFF}\ntry:\n    import ahop.{room}\nexcept ImportError as error:\n    print(error)")
        assert told == "This needs PyTorch: `pip install 'ahop[fit]'`.", room


@pytest.mark.slow
@pytest.mark.alone
def test_importing_the_package_takes_a_moment() -> None:
    script = "import time; started = time.perf_counter(); import ahop; print(time.perf_counter() - started)"
    assert min(float(run(script)) for _ in range(5)) < 0.15


def test_the_client_does_not_import_torch() -> None:
    assert run("import ahop.client, ahop.client.mcp, sys; print({'torch', 'jaxtyping'} & set(sys.modules))") == "set()"


def test_public_modules_are_imported_by_their_public_address() -> None:
    found = run("""
        from ahop.adapters import FaissSearch
        import ahop.report
        import ahop, importlib, inspect
        import ahop.operate.adapters as own
        modules = [name for name in ahop.__all__ if inspect.ismodule(getattr(ahop, name))]
        same = all(importlib.import_module(f"ahop.{name}") is getattr(ahop, name) for name in modules)
        importlib.reload(own)
        print(ahop.adapters is own, own.__name__, own.__spec__.name, FaissSearch.__module__, same, len(modules) > 20)
    """)
    assert found == "True ahop.operate.adapters ahop.operate.adapters ahop.operate.adapters.faiss True True"


def test_importing_an_address_twice_asks_once() -> None:
    found = run("""
        import ahop, importlib, sys
        importlib.reload(ahop)
        print(sum(type(each).__name__ == "Addresses" for each in sys.meta_path))
    """)
    assert found == "1"


def test_a_name_that_is_not_there_is_told() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = ahop.nothing


def test_the_version_is_that_of_the_installed_package() -> None:
    assert ahop.__version__.count(".") == 2


@pytest.mark.slow
def test_importing_the_package_is_quick_beside_torch() -> None:
    script = """
        import gc, time
        gc.disable()  # a walk through all that torch made falls into the package's time, or does not
        started = time.process_time()
        import numpy, torch
        there = time.process_time()
        import ahop
        ahop.AssociativeMemory, ahop.load
        print((time.process_time() - there) / (there - started))
    """
    assert min(float(run(script)) for _ in range(3)) < 0.14  # about .06: a busy machine slows both


@pytest.mark.slow
def test_a_hundred_thousand_large_patterns_are_scored_within_two_gigabytes() -> None:
    peak = run("""
        import resource
        import torch
        import ahop

        patterns, queries = torch.rand(100_000, 784), torch.rand(16, 784)  # all differences at once: 5 GB
        memory = ahop.zoo.a_hop(patterns)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        with torch.no_grad():
            assert memory.scores(queries).shape == (16, 100_000)
        print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 2**20)
    """)
    assert float(peak) < 2.0
