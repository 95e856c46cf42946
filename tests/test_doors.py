"""Whether a key is asked for is decided on the path that is answered, whatever the header `Host` says."""

import os
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.client import HTTPConnection
from pathlib import Path

import pytest

from tests.postgres import free_port
from tests.test_cluster import a_store

pytest.importorskip("fastapi")
pytest.importorskip("lance")

ROOT = Path(__file__).parents[1]
# The last Starlette that makes its URL of whatever `Host` says (CVE-2026-48710).
OLD = "1.0.0"
SECRET = "s" * 30


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("store")
    a_store(folder)
    return folder / "patterns.lance"


@pytest.fixture(scope="module")
def old(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A folder with the old Starlette, which stands before the installed one in the processes of these tests."""
    folder = str(tmp_path_factory.mktemp("old"))
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", folder]
    done = subprocess.run([*install, f"starlette=={OLD}"], capture_output=True, text=True, timeout=120)
    if done.returncode:
        pytest.skip(f"needs pip and a network, for Starlette {OLD}: {done.stderr.strip()[-200:]}")
    return folder


@contextmanager
def served(app: str, store: Path, *before: str) -> Iterator[HTTPConnection]:
    """An application of `tests.doors` in a process of its own."""
    port = free_port()
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([*before, str(ROOT)]),
        "AHOP_TEST_STORE": str(store),
        "OMP_NUM_THREADS": "1",
    }
    command = [sys.executable, "-m", "uvicorn", f"tests.doors:{app}", "--port", str(port), "--log-level", "error"]
    command += ["--factory"] if app == "service" else []
    with subprocess.Popen(command, env=environment, cwd=ROOT) as process:
        try:
            with closing(_connected(port, process)) as connection:
                yield connection
        finally:
            process.terminate()


def _connected(port: int, process: "subprocess.Popen[bytes]") -> HTTPConnection:
    until = time.monotonic() + 120
    while True:
        connection = HTTPConnection("127.0.0.1", port, timeout=60)
        try:
            connection.connect()
            return connection
        except ConnectionRefusedError:
            connection.close()
            assert process.poll() is None
            assert time.monotonic() < until
            time.sleep(0.1)


def status(connection: HTTPConnection, method: str, path: str, host: str, secret: str | None = None) -> int:
    connection.putrequest(method, path, skip_host=True)
    connection.putheader("Host", host)
    connection.putheader("Content-Length", "0")
    if secret is not None:
        connection.putheader("Authorization", f"Bearer {secret}")
    connection.endheaders()
    answer = connection.getresponse()
    answer.read()
    return answer.status


RECALL, FACTS = "/collections/phones/recall", "/collections/phones"


def test_an_old_starlette_takes_the_path_of_its_url_from_the_host(store: Path, old: str) -> None:
    with served("by_url", store, old) as connection:
        assert status(connection, "POST", RECALL, "x") == 401
        assert status(connection, "POST", "/livez", "x") == 404
        assert status(connection, "POST", "/livez", f"x{RECALL}?") == 200, "the fault that the others must not have"


def test_a_starlette_that_the_extras_ask_for_does_not(store: Path) -> None:
    with served("by_url", store) as connection:
        assert status(connection, "POST", RECALL, "x") == 401
        assert status(connection, "POST", "/livez", f"x{RECALL}?") == 404


def test_no_host_opens_a_path_of_the_service_with_an_old_starlette(store: Path, old: str) -> None:
    with served("service", store, old) as connection:
        refuses_without_a_key(connection)


def test_no_host_opens_a_path_of_the_service(store: Path) -> None:
    with served("service", store) as connection:
        refuses_without_a_key(connection)


def refuses_without_a_key(connection: HTTPConnection) -> None:
    for open_path, alone in (("/livez", 200), ("/readyz", 200), ("/", 200), ("/page.css", 200)):
        for path in (RECALL, FACTS):
            for host in (f"x{path}?", f"x{path}#", f"x:80{path}?a="):
                assert status(connection, "POST", open_path, host) == 405, (open_path, host)
                assert status(connection, "GET", open_path, host) == alone, (open_path, host)
    for path in (RECALL, f"{RECALL}/", FACTS, f"/{FACTS}", "/livez/", f"/livez/..{FACTS}", "/metrics"):
        for host in ("x", "x/livez?", "x/livez#"):
            assert status(connection, "GET", path, host) == 401, (path, host)
    assert status(connection, "GET", FACTS, "x/livez?", SECRET) == 200
    assert status(connection, "POST", RECALL, "x", SECRET) == 400, "the body says nothing"


@pytest.mark.parametrize("extra", ["serve", "dev"])
def test_a_starlette_that_believes_hosts_is_not_installed(extra: str) -> None:
    from packaging.requirements import Requirement

    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    (starlette,) = [each for each in map(Requirement, extras[extra]) if each.name == "starlette"]
    assert not starlette.specifier.contains(OLD)
    assert starlette.specifier.contains("1.0.1")
