"""`ahop doctor`: what is installed, which kernels run, and whether a store is sound."""

import os
import platform
import re
import shutil
import sys
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import Annotated, Any

import typer

from ahop._core.free_memory import free_bytes
from ahop._core.optional import is_installed
from ahop._core.words import told
from ahop.cli.running import WRONG, Ended, RequestError
from ahop.cli.talk import Talk, facts, grid

# The extra that others stand on, and a line that says so.
FIT = "fit"
OURS = "ahop[fit]"
COMPILERS = ("c++", "g++", "clang++", "cl")


def doctor(
    talk: Talk,
    store: Annotated[Path | None, typer.Argument(metavar="[STORE]", help="A store to look through.")] = None,
    repair: Annotated[
        bool, typer.Option("--repair", help="Write checksums that are gone, if every row can be read.")
    ] = False,
) -> None:
    """Tell what is installed, and which kernels run; or whether a store is sound.

    Versions, kernels, extras and cores: what to send along with a question. Of a store, every file is compared with its
    checksum.
    """
    if store is not None:
        _examine(store, repair, talk)
        return
    if repair:
        raise RequestError("`--repair` needs a store: `ahop doctor STORE --repair`.")
    with talk.phase("loading torch"):
        found = {**_versions(), **_machine(), **_kernels()}
    extras = _extras()
    rows = [
        [name, "installed" if not missing else "missing: " + ", ".join(missing), _fix(name, missing)]
        for name, missing in extras.items()
    ]
    talk.say(facts(found), "")
    talk.say(grid(["extra", "state", "fix"], rows))
    named = {name.replace(" ", "_"): value for name, value in found.items()}
    talk.document(command="doctor", **named, extras={name: {"missing": missing} for name, missing in extras.items()})


def _examine(path: Path, repair: bool, talk: Talk) -> None:
    with talk.phase(f"reading {path.name}"):
        from ahop.scale.stores.repair import examine_store, repair_store

        found, repaired = examine_store(path), 0
        if repair and found.unchecked:
            repaired, found = len(found.unchecked), repair_store(path)
    state = "sound: every file is as it was written"
    if found.damaged:
        state = f"damaged: {told(list(found.damaged))}. Restore these from a copy, or open an older version."
    elif found.unchecked:
        state = (
            f"{len(found.unchecked)} files have no checksum, so that it cannot be read: a list of checksums is gone. "
            f"Restore it from a copy; or `ahop doctor {path} --repair` reads every row and writes them anew."
        )
    known = {
        "store": str(path),
        "rows": f"{found.rows:,}",
        "versions": ", ".join(map(str, found.versions)),
        "files": f"{found.files:,}" + (f", of which {repaired:,} got a new checksum" if repaired else ""),
        "state": state,
    }
    talk.say(facts(known))
    talk.document(command="doctor", store=str(path), repaired=repaired, is_sound=found.is_sound, **asdict(found))
    if not found.is_sound:
        raise Ended(WRONG)


def _versions() -> dict[str, str]:
    import numpy

    import ahop

    return {
        "ahop": f"{ahop.__version__}, in {Path(ahop.__file__).parent}",
        "python": f"{platform.python_version()}, {sys.executable}",
        "torch": version("torch") if is_installed("torch") else "not installed: `fit` brings it, to learn",
        "numpy": numpy.__version__,
    }


def _machine() -> dict[str, str]:
    free = free_bytes()
    found = {
        "system": platform.platform(),
        "cores": str(os.cpu_count()),
        "free memory": "not told" if free is None else f"{free / 2**30:.1f} GiB",
    }
    if not is_installed("torch"):
        return found
    import torch

    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else "none that torch can use"
    return {**found, "cores": f"{found['cores']}, of which torch uses {torch.get_num_threads()}", "gpu": gpu}


def _kernels() -> dict[str, str]:
    """State of the compiled kernels, and the reason if they are absent."""
    try:
        from ahop._core.kernels import _native  # type: ignore[attr-defined]

        return {"kernels": f"compiled, {_native.__file__}"}
    except ImportError as error:
        import ahop

        folder = Path(ahop.__file__).parent / "_core" / "kernels"
        built = [path for path in folder.iterdir() if path.name.startswith("_native")]
        compiler = next((name for name in COMPILERS if shutil.which(name)), None)
        if built:
            why = f"{built[0].name} does not load here: {error}"
        elif compiler is None:
            why = "there was no C++17 compiler when it was installed, and there is none now"
        else:
            why = f"it was installed without a compiler; {compiler} is there now, so install ahop again"
        return {"kernels": f"not compiled, torch stands in, which is slower: {why}"}


def _extras() -> dict[str, list[str]]:
    """Missing packages of each extra."""
    found: dict[str, list[str]] = {}
    try:
        needed: Any = requires("ahop") or []
    except PackageNotFoundError:  # a checkout that was never installed
        return {}
    for line in needed:
        extra = re.search(r"extra\s*==\s*['\"]([\w-]+)['\"]", line)
        name = re.match(r"[\w.-]+", line)
        if extra is None or name is None or extra[1] == "dev":
            continue
        missing = found.setdefault(extra[1], [])
        if line.startswith(OURS):
            missing.append(FIT)
        elif not _is_there(name[0]):
            missing.append(name[0])
    without = found.get(FIT, [])
    return {
        name: [each for each in missing if each != FIT] + without * (FIT in missing) for name, missing in found.items()
    }


def _is_there(package: str) -> bool:
    try:
        return bool(version(package))
    except PackageNotFoundError:
        return False


def _fix(extra: str, missing: list[str]) -> str:
    return f'pip install "ahop[{extra}]"' if missing else ""
