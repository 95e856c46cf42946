"""A real service in a process of its own."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any


class Running:
    """A service, and how to ask it."""

    def __init__(self, process: "subprocess.Popen[bytes]", port: int, log: Path) -> None:
        self.process, self.port, self.log = process, port, log
        self.url = f"http://127.0.0.1:{port}"

    def ask(
        self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None
    ) -> tuple[int, Any, dict[str, str]]:
        """Status, body and headers; a body that is JSON is read."""
        content = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        made = HTTPConnection("127.0.0.1", self.port, timeout=30)
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
        assert status == 200, said
        found: dict[str, Any] = said
        return found

    def raw(self, sent: bytes, seconds: float = 5.0) -> bytes:
        """What comes back for these bytes."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=seconds) as made:
            made.sendall(sent)
            received = b""
            try:
                while chunk := made.recv(65536):
                    received += chunk
            except (TimeoutError, ConnectionError):
                pass
            return received

    def end(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(30)


@contextmanager
def running(folder: Path, *arguments: str, code: str | None = None, key: str | None = None) -> Iterator[Running]:
    """`python -m ahop.service ARGUMENTS`, or some code that runs one on the port that it is given."""
    log = folder / f"log-{time.monotonic_ns()}"
    command = ["-c", code] if code is not None else ["-m", "ahop.service", "--port", "0"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"} | ({} if key is None else {"AHOP_KEY": key})
    with log.open("wb") as lines:
        process = subprocess.Popen([sys.executable, *command, *arguments], stderr=lines, env=environment)
    try:
        yield Running(process, _port(process, log), log)
    finally:
        process.kill()
        process.wait()


def _port(process: "subprocess.Popen[bytes]", log: Path) -> int:
    for _ in range(1200):
        for line in log.read_text("utf-8").splitlines():
            if '"listening"' in line:
                return int(json.loads(line)["port"])
        assert process.poll() is None, log.read_text("utf-8")
        time.sleep(0.05)
    raise AssertionError("the service did not start")
