"""One real service for many sequences: three keys, and collections that requests create."""

import json
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from http.client import HTTPException
from pathlib import Path
from typing import Any

import torch

import ahop
from ahop.service import testing
from ahop.service.testing import Running
from faults.campaign import HANGS, SERVER_ERRORS, UNANSWERED
from faults.machines import BrokenError, require

# Collections of one service; there may be a hundred.
MOST = 90
# A key that may do all, one that reads the collections of some names, and one that reads some rows of all.
KEYS: dict[str, dict[str, Any]] = {
    "admin": {"may_write": True},
    "reader": {"collections": [f"seen-{number}" for number in range(MOST)]},
    "narrow": {"where": {"tenant": "a"}},
}
BUSY, UNAVAILABLE, FAILED = 429, 503, 500
# Seconds after which a request that was told to come back is a broken promise.
PATIENCE = 30.0


class World:
    """A service on files in a folder, which can be ended, killed and started again."""

    def __init__(self, folder: Path) -> None:
        self.top, self.made, self.generation = folder, MOST, 0
        self._context: Any = None
        self.running: Running

    def name(self, kind: str) -> str:
        """Name of a collection that is not there yet; in a new service, if this one has many or is spoiled."""
        if self.made >= MOST or self.running.process.poll() is not None:
            self.close()
            self.generation, self.made = self.generation + 1, 0
            self.folder = self.top / f"service-{self.generation}"
            (self.folder / "created").mkdir(parents=True)
            keys = [{"name": name, "sha256": _digest(name), **more} for name, more in KEYS.items()]
            (self.folder / "keys.json").write_text(json.dumps(keys))
            memory = ahop.AssociativeMemory(torch.eye(3), ahop.EuclideanSimilarity(), labels=["x", "y", "z"])
            memory.save(self.folder / "file.ahop")
            self.start()
        self.made += 1
        return f"{kind}-{self.made - 1}"

    def start(self) -> None:
        arguments = [str(self.folder / "file.ahop"), "--create-in", str(self.folder / "created")]
        arguments += ["--keys", str(self.folder / "keys.json"), "--review", "20", "--watch", "50", "--no-compaction"]
        self._context = testing.running(self.folder, *arguments)
        self.running = self._context.__enter__()

    def restart(self, is_killed: bool) -> None:
        self.check_log()
        self.running.process.send_signal(signal.SIGKILL if is_killed else signal.SIGTERM)
        code = self.running.process.wait(testing.END)
        require(is_killed or code == 0, UNANSWERED, f"the service ended with {code}")
        self._context.__exit__(None, None, None)
        self.start()

    def spoil(self) -> None:
        """Start the next sequence with a service of its own."""
        self.made = MOST

    def check_log(self) -> None:
        require(not self.running.failures(), SERVER_ERRORS, f"{self.running.failures()[:1]}")

    def ask(self, key: str | None, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        """Status and answer. Who is told to come back does so."""
        given = {} if key is None else {"Authorization": f"Bearer {_secret(key)}"}
        until = time.monotonic() + PATIENCE
        while True:
            try:
                status, said, told = self.running.ask(method, path, body, {**given, **headers})
            except (OSError, HTTPException) as error:
                raise BrokenError(UNANSWERED, f"{method} {path}: {type(error).__name__}: {error}") from error
            is_later = status in (BUSY, UNAVAILABLE) and "Retry-After" in {name.title() for name in told}
            if not is_later:
                require(status < FAILED, SERVER_ERRORS, f"{key} {method} {path} {body!r}: {status} {said}"[:1500])
                return status, said
            require(time.monotonic() < until, HANGS, f"{method} {path}: {status} {said}")
            time.sleep(0.05)

    def close(self) -> None:
        if self._context is not None:
            self._context.__exit__(None, None, None)
            self._context = None


@contextmanager
def world(folder: Path) -> Iterator[World]:
    made = World(folder)
    try:
        yield made
    finally:
        made.close()


def _secret(name: str) -> str:
    return f"the secret of {name}, which is long enough"


def _digest(name: str) -> str:
    return sha256(_secret(name).encode()).hexdigest()
