"""Learn anew from feedback, in a process of its own: who recalls meanwhile is not held up, and a crash harms nobody."""

import json
import os
import subprocess  # nosec B404 # one process, our own interpreter, no shell
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, final
from uuid import uuid4

import torch
from filelock import FileLock
from safetensors.torch import load_file
from torch import Tensor

from ahop.errors import AhopError, ConflictError, InvalidValueError
from ahop.memory.load import load as read_memory
from ahop.memory.load import model_from_bytes, model_to_bytes
from ahop.memory.saving.archive import write_tensors
from ahop.service.collections.batching import BusyError
from ahop.service.collections.collection import Collection
from ahop.service.collections.slots import Slots
from ahop.service.collections.snapshot import Snapshot
from ahop.service.logs import log

MEMORY, GIVEN, SETTINGS, MODEL, RESULT = "memory.ahop", "given.safetensors", "settings.json", "model.bin", "result.json"
# Jobs whose outcome is remembered.
REMEMBERED = 16
# When to ask again where too many run: a fit takes seconds to minutes.
RETRY_SECONDS = 10


@dataclass(frozen=True)
class Refit:
    """A job.

    Attributes:
        state: "running", "done" or "failed".
        left_out: pairs that were not learned from, as their patterns are gone.
        version: of the model that it made.
        report: what the fit found, in words.
        error: why it failed.
    """

    job: str
    collection: str
    state: str
    pairs: int
    queries: int
    left_out: int = 0
    seconds: float = 0.0
    version: int | None = None
    report: str | None = None
    error: str | None = None

    def facts(self) -> dict[str, Any]:
        return {name: value for name, value in asdict(self).items() if value is not None}


@final
class Refits:
    """The jobs of a service, one at a time for each collection.

    Args:
        seconds: that one may take.
        count: how many run at a time, with those of other services of this user.
    """

    def __init__(self, seconds: float, count: int = 2) -> None:
        self._seconds, self._lock = seconds, threading.Lock()
        self._count, self._slots = count, Slots("fit", count)
        self._jobs: dict[str, Refit] = {}
        self._running: dict[str, subprocess.Popen[bytes] | None] = {}
        self._ends = False

    def of(self, collection: str) -> list[Refit]:
        """The newest last."""
        with self._lock:
            return [job for job in self._jobs.values() if job.collection == collection]

    def start(
        self,
        collection: Collection,
        pairs: tuple[Tensor, list[int], list[str] | None],
        queries: Tensor | None,
        similarity: str | None,
        patterns: Sequence[str | None] | None = None,
    ) -> Refit:
        """Learn from pairs (queries, numbers of rows, groups), from queries whose origins nobody knows, or both.

        Args:
            patterns: digests of the patterns that the pairs were given for; pairs of others are left out.
        """
        snapshot = collection.snapshot  # all that is learned from is of this state
        copies, numbers, groups = pairs
        known = _known(snapshot, numbers, [None] * len(numbers) if patterns is None else patterns)
        left_out = len(numbers) - len(known)
        if not known and (queries is None or not len(queries)):
            gone = f" {left_out} pair(s) were told of patterns that are gone." if left_out else ""
            raise InvalidValueError(f"There is nothing to learn from: POST pairs first, or send `queries`.{gone}")
        places = [place for place, _ in known]
        given = {"origins": torch.tensor([row for _, row in known], dtype=torch.long), "copies": copies[places]}
        if queries is not None:
            given["queries"] = queries
        settings = {
            "similarity": similarity,
            "groups": None if groups is None or queries is not None else [groups[place] for place in places],
        }
        count = 0 if queries is None else len(queries)
        job = Refit(uuid4().hex[:12], collection.name, "running", len(known), count, left_out)
        with self._lock:
            if collection.name in self._running or self._ends:
                raise ConflictError("A fit of this collection is running. Ask again when it has ended.")
            slot = self._slots.take()
            if slot is None:
                words = f"{self._count} fits are running on this machine, as many as there may be at a time."
                raise BusyError(RETRY_SECONDS, words)
            self._running[collection.name] = None
            self._keep(job)
        work = (job, collection, snapshot, given, settings, slot)
        threading.Thread(target=self._run, args=work, daemon=True).start()
        return job

    def close(self) -> None:
        """End what runs; nothing of it is kept."""
        with self._lock:
            self._ends = True
            for process in self._running.values():
                if process is not None:
                    process.kill()

    def _run(
        self,
        job: Refit,
        collection: Collection,
        snapshot: Snapshot,
        given: dict[str, Tensor],
        settings: dict[str, Any],
        slot: FileLock,
    ) -> None:
        started = time.monotonic()
        try:
            with tempfile.TemporaryDirectory() as name:
                folder = Path(name)
                snapshot.memory.save(folder / MEMORY)
                write_tensors(folder / GIVEN, {key: value.contiguous() for key, value in given.items()})
                (folder / SETTINGS).write_text(json.dumps(settings), "ascii")
                report = self._wait(collection.name, folder)
                model = model_from_bytes((folder / MODEL).read_bytes(), "The new model")
            version = collection.learn(model).version
            ended = replace(job, state="done", version=version, report=report)
        except Exception as error:  # whatever it is, the job has ended
            ended = replace(job, state="failed", error=str(error)[:1000])
        finally:
            slot.release()
            with self._lock:
                self._running.pop(collection.name, None)
        seconds = round(time.monotonic() - started, 3)
        with self._lock:
            self._keep(replace(ended, seconds=seconds))
        told: dict[str, Any] = {"collection": collection.name, "job": job.job, "version": ended.version}
        log("fit", **told, state=ended.state, seconds=seconds, pairs=job.pairs, left_out=job.left_out)

    def _wait(self, name: str, folder: Path) -> str:
        """Report of the process."""
        with self._lock:
            if self._ends:
                raise ConflictError("The service is ending.")
            process = subprocess.Popen(  # nosec B603 # no word of it comes from a request
                [sys.executable, "-m", "ahop.service.jobs.refit", str(folder)],
                env={**os.environ, "OMP_NUM_THREADS": "1"},
                stdin=subprocess.PIPE,  # closed when this process is gone, however that comes about
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            self._running[name] = process
        try:
            process.wait(self._seconds)
        finally:
            process.kill()
            process.communicate()
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


def _known(snapshot: Snapshot, numbers: Sequence[int], patterns: Sequence[str | None]) -> list[tuple[int, int]]:
    """Places of pairs, and the rows that they were told of: those that are there, with the same pattern."""
    found, digests = list[tuple[int, int]](), dict[int, str]()
    for place, (number, pattern) in enumerate(zip(numbers, patterns, strict=True)):
        row = snapshot.row_of(number)
        if row is None:
            continue
        if pattern is not None and row not in digests:
            digests[row] = snapshot.digest_of(row)
        if pattern is None or digests[row] == pattern:
            found.append((place, row))
    return found


def end_with_parent() -> None:
    """End when nobody waits for the result any more."""
    os.read(0, 1)
    os._exit(1)


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
    threading.Thread(target=end_with_parent, daemon=True).start()
    learn(Path(sys.argv[1]))
