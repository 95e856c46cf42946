"""Install a wheel where nothing can be compiled, and run README there: `python tests/wheel.py dist/ahop-...whl`.

It makes a fresh environment with torch, takes the compilers away, and times the installation of the wheel with the
extras that README names. The compiled kernels must be used, and the guide readable. Standard library only, as it runs
before anything is installed.
"""

import os
import re
import subprocess
import sys
import time
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ENVIRONMENT = ROOT / ".venv-wheel"
TORCH = "torch==2.13.0"
MOST_SECONDS = 60

# The kernels answer, and nothing stands in for them.
KERNELS = """
import ahop
from ahop._core.kernels import native

class Counted:
    calls = 0
    def __getattr__(self, name):
        Counted.calls += 1
        return getattr(compiled, name)

compiled, native.native = native.native, Counted()
assert compiled is not None, "the wheel has no compiled kernels"
building = ahop.datasets.Building()
memory = ahop.AssociativeMemory(building.values, ahop.AdaptiveSimilarity(building.values.shape[1]))
memory.recall(building.values[:3])
assert Counted.calls, "the compiled kernels are there, and were not used"
print(f"kernels: {compiled.__file__}")
"""


def extras() -> str:
    """The extras that README says to install, as `[a,b]`."""
    (named,) = re.findall(r"^pip install '\.(\[[\w,]+\])'$", (ROOT / "README.md").read_text("utf-8"), re.MULTILINE)
    return str(named)


def without_compilers() -> dict[str, str]:
    """The environment of a machine that has Python and nothing else."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return {**kept, "PATH": str(ENVIRONMENT / "bin"), "CC": "/bin/false", "CXX": "/bin/false"}


def seconds_to_install(wheel: str) -> float:
    """Of the wheel and all that it needs beyond torch, into a fresh environment."""
    venv.create(ENVIRONMENT, clear=True, with_pip=True)
    install = [str(ENVIRONMENT / "bin" / "python"), "-m", "pip", "install", "--quiet", "--no-cache-dir"]
    subprocess.run([*install, TORCH], check=True)
    started = time.perf_counter()
    subprocess.run([*install, f"{Path(wheel).resolve()}{extras()}"], env=without_compilers(), check=True)
    seconds = time.perf_counter() - started
    print(f"{Path(wheel).name}{extras()} installed in {seconds:.1f} s, with no compiler", flush=True)
    return seconds


def main(wheel: str) -> None:
    # A busy machine may try twice.
    if seconds_to_install(wheel) > MOST_SECONDS and seconds_to_install(wheel) > MOST_SECONDS:
        raise SystemExit(f"that is more than {MOST_SECONDS} s")
    python, bare = str(ENVIRONMENT / "bin" / "python"), without_compilers()
    subprocess.run([python, "-P", "-c", KERNELS], env=bare, cwd=ENVIRONMENT, check=True)
    subprocess.run([python, "-P", "-m", "ahop.docs", "glossary"], env=bare, stdout=subprocess.DEVNULL, check=True)
    subprocess.run([python, str(ROOT / "tests" / "readme.py")], env=bare, check=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
