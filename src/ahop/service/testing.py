"""A real service in a process of its own, for tests and measurements."""

import json
import os
import signal
import socket
import subprocess  # nosec B404 # it starts this very package
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http import HTTPStatus
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, final

# Seconds until it must listen, and until it must have ended after a signal.
START, END = 120.0, 60.0


@final
class Running:
    """A service, and how to ask it; made by `running`.

    Attributes:
        process: which runs it.
        log: the file that its lines go to.
        start_seconds: until it listened.
    """

    def __init__(self, process: "subprocess.Popen[bytes]", log: Path, started: float) -> None:
        self.process, self.log = process, log
        self.port = self._port()
        self.url, self.start_seconds = f"http://127.0.0.1:{self.port}", time.monotonic() - started

    def ask(
        self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None
    ) -> tuple[int, Any, dict[str, str]]:
        """Status, body and headers; a body that is JSON is read."""
        content = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        made = HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            made.request(method, path, content, dict(headers or {}))
            response = made.getresponse()
            said = response.read()
            is_json = method != "HEAD" and response.headers.get_content_type() == "application/json"
            return response.status, json.loads(said) if is_json else said, dict(response.headers)
        finally:
            made.close()

    def recall(self, collection: str, **fields: Any) -> dict[str, Any]:
        status, said, _ = self.ask("POST", f"/collections/{collection}/recall", fields)
        if status != HTTPStatus.OK:
            raise RuntimeError(f"{status}: {said}")
        found: dict[str, Any] = said
        return found

    def raw(self, sent: bytes, seconds: float = 5.0) -> bytes:
        """Send these bytes; returns those that come back."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=seconds) as made:
            made.sendall(sent)
            received = b""
            try:
                while chunk := made.recv(65536):
                    received += chunk
            except (TimeoutError, ConnectionError):
                pass
            return received

    def failures(self) -> list[str]:
        """Lines of the log about defects."""
        return [line for line in self.log.read_text("utf-8").splitlines() if '"failure"' in line]

    def end(self) -> int:
        """SIGTERM, as systems send it; returns the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(END)

    def _port(self) -> int:
        until = time.monotonic() + START
        while time.monotonic() < until and self.process.poll() is None:
            for line in self.log.read_text("utf-8").splitlines():
                if '"listening"' in line:
                    return int(json.loads(line)["port"])
            time.sleep(0.02)
        raise RuntimeError(f"The service did not start: {self.log.read_text('utf-8')[-2000:]}")


@contextmanager
def running(
    folder: Path, *arguments: str, code: str | None = None, key: str | None = None, threads: int | None = 1
) -> Iterator[Running]:
    """`python -m ahop.service ARGUMENTS` on a free port, or some code that runs a service; killed at the end.

    Args:
        folder: for the log.
        key: the secret of a key that may do everything.
        threads: for the kernels; None for as many as they take.
    """
    log = folder / f"log-{time.monotonic_ns()}"
    command = ["-c", code] if code is not None else ["-m", "ahop.service", "--port", "0"]
    inherited = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    environment = inherited | ({} if key is None else {"AHOP_KEY": key})
    environment |= {} if threads is None else {"OMP_NUM_THREADS": str(threads)}
    started = time.monotonic()
    with log.open("wb") as lines:
        process = subprocess.Popen(  # nosec B603 # no shell, and the caller is a test
            [sys.executable, *command, *arguments], stderr=lines, env=environment
        )
    try:
        yield Running(process, log, started)
    finally:
        process.kill()
        process.wait()
