"""Learn anew from feedback, in a process of its own: who recalls meanwhile is not held up, and a crash harms nobody."""

import json
import os
import subprocess  # nosec B404 # one process, our own interpreter, no shell
import sys
import tempfile
import threading
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, final
from uuid import uuid4

import torch
from safetensors.torch import load_file
from torch import Tensor

from ahop.errors import AhopError, ConflictError, InvalidValueError
from ahop.saving.archive import write_tensors
from ahop.saving.load import load as read_memory
from ahop.saving.load import model_from_bytes, model_to_bytes
from ahop.service.collection import Collection
from ahop.service.logs import log

MEMORY, GIVEN, SETTINGS, MODEL, RESULT = "memory.ahop", "given.safetensors", "settings.json", "model.bin", "result.json"
# Jobs whose outcome is remembered.
REMEMBERED = 16


@dataclass(frozen=True)
class Refit:
    """A job.

    Attributes:
        state: "running", "done" or "failed".
        version: of the model that it made.
        report: what the fit found, in words.
        error: why it failed.
    """

    job: str
    collection: str
    state: str
    pairs: int
    queries: int
    seconds: float = 0.0
    version: int | None = None
    report: str | None = None
    error: str | None = None

    def facts(self) -> dict[str, Any]:
        return {name: value for name, value in asdict(self).items() if value is not None}


@final
class Refits:
    """The jobs of a service, one at a time for each collection."""

    def __init__(self, seconds: float) -> None:
        self._seconds, self._lock = seconds, threading.Lock()
        self._jobs: dict[str, Refit] = {}
        self._running: dict[str, subprocess.Popen[bytes] | None] = {}
        self._ends = False

    def of(self, collection: str) -> list[Refit]:
        """The newest last."""
        return [job for job in self._jobs.values() if job.collection == collection]

    def start(
        self,
        collection: Collection,
        pairs: tuple[Tensor, list[int], list[str] | None],
        queries: Tensor | None,
        similarity: str | None,
    ) -> Refit:
        """Learn from pairs (queries, numbers of rows, groups), from queries whose origins nobody knows, or both."""
        snapshot = collection.snapshot
        copies, numbers, groups = pairs
        found = [(place, snapshot.row_of(number)) for place, number in enumerate(numbers)]
        known = [(place, row) for place, row in found if row is not None]  # others were removed since
        if not known and (queries is None or not len(queries)):
            raise InvalidValueError("There is nothing to learn from: POST pairs first, or send `queries`.")
        places = [place for place, _ in known]
        given = {"origins": torch.tensor([row for _, row in known], dtype=torch.long), "copies": copies[places]}
        if queries is not None:
            given["queries"] = queries
        settings = {
            "similarity": similarity,
            "groups": None if groups is None or queries is not None else [groups[place] for place in places],
        }
        job = Refit(uuid4().hex[:12], collection.name, "running", len(known), 0 if queries is None else len(queries))
        with self._lock:
            if collection.name in self._running or self._ends:
                raise ConflictError("A fit of this collection is running. Ask again when it has ended.")
            self._running[collection.name] = None
            self._keep(job)
        threading.Thread(target=self._run, args=(job, collection, given, settings), daemon=True).start()
        return job

    def close(self) -> None:
        """End what runs; nothing of it is kept."""
        with self._lock:
            self._ends = True
            for process in self._running.values():
                if process is not None:
                    process.kill()

    def _run(self, job: Refit, collection: Collection, given: dict[str, Tensor], settings: dict[str, Any]) -> None:
        started = time.monotonic()
        try:
            with tempfile.TemporaryDirectory() as name:
                folder = Path(name)
                collection.snapshot.memory.save(folder / MEMORY)
                write_tensors(folder / GIVEN, {key: value.contiguous() for key, value in given.items()})
                (folder / SETTINGS).write_text(json.dumps(settings), "ascii")
                report = self._wait(collection.name, folder)
                model = model_from_bytes((folder / MODEL).read_bytes(), "The new model")
            version = collection.learn(model).version
            ended = replace(job, state="done", version=version, report=report)
        except Exception as error:  # whatever it is, the job has ended
            ended = replace(job, state="failed", error=str(error)[:1000])
        finally:
            with self._lock:
                self._running.pop(collection.name, None)
        seconds = round(time.monotonic() - started, 3)
        with self._lock:
            self._keep(replace(ended, seconds=seconds))
        log("fit", collection=collection.name, job=job.job, state=ended.state, version=ended.version, seconds=seconds)

    def _wait(self, name: str, folder: Path) -> str:
        """What the process reports."""
        with self._lock:
            if self._ends:
                raise ConflictError("The service is ending.")
            process = subprocess.Popen(  # nosec B603 # no word of it comes from a request
                [sys.executable, "-m", "ahop.service.refit", str(folder)],
                env={**os.environ, "OMP_NUM_THREADS": "1"},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            self._running[name] = process
        try:
            process.wait(self._seconds)
        finally:
            process.kill()
            process.wait()
        if not (folder / RESULT).exists():
            raise InvalidValueError(f"The fit ended without a result (code {process.returncode}). Was memory short?")
        result = json.loads((folder / RESULT).read_text("utf-8"))
        if "error" in result:
            raise InvalidValueError(result["error"])
        return str(result["report"])

    def _keep(self, job: Refit) -> None:
        self._jobs[job.job] = job
        for old in [each for each, known in self._jobs.items() if known.state != "running"][:-REMEMBERED]:
            del self._jobs[old]


def learn(folder: Path) -> None:
    """The process: fit, and leave the model and a report in the folder."""
    from ahop.fitting.fit import fit
    from ahop.variants.base import Pairs

    memory, given = read_memory(folder / MEMORY), load_file(folder / GIVEN)
    settings = json.loads((folder / SETTINGS).read_text("ascii"))
    pairs = Pairs(given["origins"], given["copies"].to(memory.patterns)) if len(given["origins"]) else None
    try:
        fitted = fit(
            memory,
            pairs=pairs,
            queries=given.get("queries"),
            groups=settings["groups"],
            similarity=settings["similarity"] or "auto",
            progress=False,
        )
        (folder / MODEL).write_bytes(model_to_bytes(fitted.model))
        result = {"report": str(fitted.report)}
    except AhopError as error:
        result = {"error": str(error)}
    beside = folder / "result.partial"
    beside.write_text(json.dumps(result), "utf-8")
    beside.replace(folder / RESULT)


if __name__ == "__main__":
    if hasattr(os, "nice"):
        os.nice(10)
    learn(Path(sys.argv[1]))
