"""A real service in a process of its own, over a memory's file and a store, and how to ask it."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import torch

import ahop
from ahop.stores import create_store
from faults import forks

DIMENSIONS, ROWS = 4, 60
QUESTION = {"queries": [[0.1, None, 0.3, 0.9]], "k": 2}


class Service:
    """A service that runs."""

    def __init__(self, process: "subprocess.Popen[bytes]", log: Path) -> None:
        self.process, self.log = process, log
        self.port = self._port()

    def ask(self, method: str, path: str, body: bytes | None = None, **headers: str) -> tuple[int, bytes]:
        """Status and body of an answer, over a connection of its own."""
        made = HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            made.request(method, path, body, {name.replace("_", "-"): value for name, value in headers.items()})
            response = made.getresponse()
            return response.status, response.read()
        finally:
            made.close()

    def answers(self) -> bool:
        """Whether a right question gets a right answer."""
        try:
            status, said = self.ask("POST", "/collections/rooms/recall", json.dumps(QUESTION).encode())
            return status == 200 and len(json.loads(said)["ids"][0]) == 2
        except (OSError, ValueError):
            return False

    def failures(self) -> list[str]:
        """What the log says of defects."""
        return [line for line in self.log.read_text("utf-8").splitlines() if '"failure"' in line]

    def end(self) -> int:
        """SIGTERM, as systems send it."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60)

    def _port(self) -> int:
        until = time.monotonic() + 120
        while time.monotonic() < until and self.process.poll() is None:
            for line in self.log.read_text("utf-8").splitlines():
                if '"listening"' in line:
                    return int(json.loads(line)["port"])
            time.sleep(0.02)
        raise RuntimeError(f"The service did not start: {self.log.read_text('utf-8')[-500:]}")


def prepare(folder: Path) -> None:
    """A memory's file and a store, if they are not there."""
    if not (folder / "rooms.ahop").exists():
        forks.run(lambda say: _prepare(folder))


def _prepare(folder: Path) -> None:
    patterns = torch.rand(ROWS, DIMENSIONS, generator=torch.Generator().manual_seed(0))
    pairs = ahop.MixedVariant(0.05, 0.05, 0.05).sample(patterns, ROWS, seed=0)
    memory = ahop.fit(patterns, pairs=pairs, similarity="mixture", progress=False)
    create_store(folder / "phones.lance", memory, metadata={"floor": [row % 4 for row in range(ROWS)]})
    memory.save(folder / "rooms.ahop")


@contextmanager
def running(folder: Path, *arguments: str, key: str | None = None) -> Iterator[Service]:
    """`python -m ahop.service` over both."""
    prepare(folder)
    environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    environment |= {"OMP_NUM_THREADS": "1"} | ({} if key is None else {"AHOP_KEY": key})
    log = folder / f"log-{time.monotonic_ns()}"
    paths = [str(folder / "rooms.ahop"), str(folder / "phones.lance")]
    command = [sys.executable, "-m", "ahop.service", "--port", "0", *paths, *arguments]
    with log.open("wb") as lines:
        process = subprocess.Popen(command, stderr=lines, env=environment)
    try:
        yield Service(process, log)
    finally:
        process.kill()
        process.wait()


def shown(value: Any) -> str:
    return repr(value)[:300]
