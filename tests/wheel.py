"""Install a wheel where nothing can be compiled, and run README there: `python tests/wheel.py dist/ahop-...whl`.

It makes a fresh environment with torch, takes the compilers away, and times the installation of the wheel with the
extras that README names. The compiled kernels must be used, and the guide readable. A second environment has no torch
and stays small: there the commands of README run, all but the one that learns. Standard library only, as it runs before
anything is installed.
"""

import os
import re
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ENVIRONMENT, BARE = ROOT / ".venv-wheel", ROOT / ".venv-bare"
TORCH = "torch==2.13.0"
MOST_SECONDS = 60
# Of the wheel alone, with all that it brings: MB beyond an empty environment.
MOST_MB = 100
CONSOLE = re.compile(r"^```console[ \t]*\n(.*?)^```[ \t]*$", re.MULTILINE | re.DOTALL)
# More that is done with what README makes.
MORE = (
    "ahop explain rooms.ahop scans.csv --row 1",
    "ahop watch rooms.ahop log.csv",
    "ahop inspect rooms.ahop",
    "ahop doctor",
)

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


def without_compilers(environment: Path) -> dict[str, str]:
    """The environment of a machine that has Python and nothing else."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return {**kept, "PATH": str(environment / "bin"), "CC": "/bin/false", "CXX": "/bin/false"}


def seconds_to_install(wheel: str) -> float:
    """Of the wheel and all that it needs beyond torch, into a fresh environment."""
    venv.create(ENVIRONMENT, clear=True, with_pip=True)
    install = [str(ENVIRONMENT / "bin" / "python"), "-m", "pip", "install", "--quiet", "--no-cache-dir"]
    subprocess.run([*install, TORCH], check=True)
    started = time.perf_counter()
    subprocess.run([*install, f"{Path(wheel).resolve()}{extras()}"], env=without_compilers(ENVIRONMENT), check=True)
    seconds = time.perf_counter() - started
    print(f"{Path(wheel).name}{extras()} installed in {seconds:.1f} s, with no compiler", flush=True)
    return seconds


def commands() -> list[str]:
    """Commands of README, without the prompt."""
    lines = "".join(CONSOLE.findall((ROOT / "README.md").read_text("utf-8"))).splitlines()
    return [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]


def megabytes(folder: Path) -> float:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6


def run_without_torch(wheel: str) -> None:
    """Whoever has a memory: the wheel alone, then with its command line."""
    venv.create(BARE, clear=True, with_pip=True)
    empty, bare = megabytes(BARE), without_compilers(BARE)
    install = [str(BARE / "bin" / "python"), "-m", "pip", "install", "--quiet", "--no-cache-dir"]
    subprocess.run([*install, str(Path(wheel).resolve())], env=bare, check=True)
    brought = megabytes(BARE) - empty
    print(f"{Path(wheel).name} and all that it needs: {brought:.0f} MB", flush=True)
    if brought > MOST_MB:
        raise SystemExit(f"that is more than {MOST_MB} MB")
    subprocess.run([*install, f"{Path(wheel).resolve()}[cli]"], env=bare, check=True)
    if list(BARE.rglob("site-packages/torch")):
        raise SystemExit("the command line has brought torch")
    with tempfile.TemporaryDirectory() as folder:
        for command in [*commands(), *MORE]:
            learns = command.startswith("ahop fit")
            program, *words = command.split()
            found = subprocess.run(
                [str((ENVIRONMENT if learns else BARE) / "bin" / program), *words],
                env=without_compilers(ENVIRONMENT) if learns else bare,
                cwd=folder,
                check=False,
            )
            if found.returncode:
                raise SystemExit(f"`{command}` ended with {found.returncode}")
        told = subprocess.run(
            [str(BARE / "bin" / "ahop"), "fit", "rooms.csv", "--queries", "log.csv", "-o", "other.ahop"],
            env=bare,
            cwd=folder,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
        if "ahop[fit]" not in told.stderr:
            raise SystemExit(f"`ahop fit` without torch says {told.stderr!r}")


def main(wheel: str) -> None:
    # A busy machine may try twice.
    if seconds_to_install(wheel) > MOST_SECONDS and seconds_to_install(wheel) > MOST_SECONDS:
        raise SystemExit(f"that is more than {MOST_SECONDS} s")
    python, bare = str(ENVIRONMENT / "bin" / "python"), without_compilers(ENVIRONMENT)
    subprocess.run([python, "-P", "-c", KERNELS], env=bare, cwd=ENVIRONMENT, check=True)
    subprocess.run([python, "-P", "-m", "ahop.docs", "glossary"], env=bare, stdout=subprocess.DEVNULL, check=True)
    subprocess.run([python, str(ROOT / "tests" / "readme.py")], env=bare, check=True)
    run_without_torch(wheel)


if __name__ == "__main__":
    main(*sys.argv[1:])
