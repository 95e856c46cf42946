"""Answer requests that wait at the same time together, by turns, in one thread; refuse those that would wait long."""

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from math import ceil
from typing import Any, final

import torch
from torch import Tensor

from ahop.errors import UnavailableError
from ahop.memory.recall import Recall, cut, joined
from ahop.service.collections.snapshot import BaseSnapshot, Passing, RecallOptions
from ahop.service.options import Options

# Queries that are looked at together, at most; and those that the cost of a recall is measured by.
MOST_TOGETHER, MEASURED = 256, 8
# A request waits the longer the more it asks for: so many times its own work beyond what all may wait.
PATIENCE = 2.0
# How much a measured time counts beside those before.
NEWEST = 0.2


class BusyError(UnavailableError):
    """Too many are waiting."""

    def __init__(self, seconds: int, words: str = "Too many requests are waiting.") -> None:
        super().__init__(words)
        self.seconds = seconds


@final
class Cost:
    """Seconds that a recall takes: `overhead + each * queries`, measured when a collection opens, and as it answers."""

    def __init__(self, overhead: float = 1e-3, each: float = 1e-3) -> None:
        self.overhead, self.each, self.scale = overhead, each, 1.0

    @classmethod
    def of(cls, snapshot: BaseSnapshot, k: int = 1) -> "Cost":
        queries = snapshot.example.expand(MEASURED, -1).contiguous()
        one, several = (
            min(_seconds(lambda count=count: snapshot.answers(queries[:count], k)) for _ in range(2))  # type: ignore[misc]
            for count in (1, MEASURED)
        )
        each = max(several - one, 0.1 * several) / (MEASURED - 1)
        return cls(max(0.0, one - each), each)

    def seconds(self, queries: int, share: float = 1.0) -> float:
        """Args: share: of the rows that pass the filter."""
        return self.scale * (self.overhead + self.each * queries * share)

    def learn(self, seconds: float, expected: float) -> None:
        ratio = min(4.0, max(0.25, seconds / max(1e-6, expected)))
        self.scale = min(100.0, max(0.01, self.scale * ratio**NEWEST))


@dataclass(eq=False)
class Job:
    """Queries of one request on their way.

    Attributes:
        name: jobs of the same name may be answered together.
        tell: takes the answer, or what went wrong; called once, from the thread that works.
    """

    snapshot: BaseSnapshot
    cost: Cost
    queries: Tensor
    k: int
    rows: Passing | None
    name: str
    groups: list[str] | None
    same: list[str | int] | None
    patterns: bool
    tell: Callable[[Recall[Tensor] | BaseException], None]
    is_given_up: bool = False
    done: int = 0
    parts: list[Recall[Tensor]] = field(default_factory=list)

    @property
    def share(self) -> float:
        # Only shards know how many rows pass a filter in words.
        return max(0.01, len(self.rows) / max(1, len(self.snapshot))) if isinstance(self.rows, Tensor) else 1.0

    @property
    def left(self) -> int:
        return len(self.queries) - self.done

    @property
    def seconds_left(self) -> float:
        return self.cost.seconds(self.left, self.share)

    @property
    def overhead(self) -> float:
        """Seconds of a turn beside its queries."""
        return self.cost.scale * self.cost.overhead

    @property
    def kind(self) -> tuple[Any, ...]:
        """Key that jobs which are answered together have in common."""
        is_alone = self.same is not None
        k = self.snapshot.uses_index(self.k) if self.snapshot.model.weighs_by_mass else self.k
        return id(self.snapshot), self.name, self.groups is None, self.patterns, k, id(self) if is_alone else None


@final
class Worker:
    """One thread that answers. Requests share it by turns: a large one does not hold up small ones for long."""

    def __init__(self, options: Options) -> None:
        self._options, self._limits = options, options.limits
        self._jobs: deque[Job] = deque()
        self._changed = threading.Condition()
        self._busy_until = 0.0
        self._ends = False
        self._thread = threading.Thread(target=self._work, name="ahop-recall", daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> int:
        return len(self._jobs)

    def wait(self, own: float = 0.0) -> float:
        """Seconds that a job which takes `own` would wait: others get as much time as it takes, and one turn more."""
        longest = own + self._options.slice_seconds
        with self._changed:
            queued = sum(min(job.seconds_left - job.overhead, longest) for job in self._jobs)
            # Jobs of one kind are answered together: what a turn takes by itself is taken once.
            queued += sum({job.kind: job.overhead for job in self._jobs}.values())
        return max(0.0, self._busy_until - time.monotonic()) + queued

    def check_free(self, own: float = 0.0) -> None:
        """Raise `BusyError` if a job that takes so many seconds would have to wait too long."""
        wait = self.wait(own)
        if self.waiting >= self._limits.waiting or wait > self._limits.wait_seconds + PATIENCE * own:
            raise BusyError(max(1, ceil(wait)))

    def submit(self, job: Job) -> None:
        with self._changed:
            if self._ends:
                raise UnavailableError("The service is ending.")
            self._jobs.append(job)
            self._changed.notify()

    def close(self) -> None:
        """Answer what waits, and end."""
        with self._changed:
            self._ends = True
            self._changed.notify()
        self._thread.join()

    def _work(self) -> None:
        together = False
        while True:
            with self._changed:
                while not self._jobs:
                    if self._ends:
                        return
                    self._changed.wait()
                if together and len(self._jobs) == 1 and self._options.window_seconds:
                    self._changed.wait(self._options.window_seconds)
                taken = self._take()
            if taken:
                together = len(taken) > 1
                self._answer(taken)

    def _take(self) -> list[tuple[Job, int]]:
        """Jobs of one kind, and how many queries of each; as many as fit into a turn, the first at least."""
        self._jobs = deque(job for job in self._jobs if not job.is_given_up)
        if not self._jobs:
            return []
        first, taken, room = self._jobs[0], list[tuple[Job, int]](), MOST_TOGETHER
        each = max(1e-9, first.cost.scale * first.cost.each * first.share)
        room = min(room, max(1, int((self._options.slice_seconds - first.overhead) / each)))
        if first.same is not None:
            room = max(1, len(first.queries))  # what queries of one origin say is added: all of them at once
        others = deque[Job]()
        for job in self._jobs:
            if room > 0 and job.kind == first.kind:
                count = min(job.left, room)
                taken.append((job, count))
                room -= max(1, count)
            else:
                others.append(job)
        self._jobs = others
        return taken

    def _answer(self, taken: list[tuple[Job, int]]) -> None:
        first = taken[0][0]
        queries = torch.cat([job.queries[job.done : job.done + count] for job, count in taken])
        expected = first.cost.seconds(len(queries), first.share)
        started = time.monotonic()
        self._busy_until = started + expected
        try:
            found = self._recall(first, queries, taken)
        except BaseException as error:  # whoever waits must hear of it, whatever it is
            for job, _ in taken:
                job.tell(error)
            return
        first.cost.learn(time.monotonic() - started, expected)
        start = 0
        for job, count in taken:
            count = len(found.indices) if job.same is not None else count
            job.parts.append(cut(found, slice(start, start + count), job.k))
            job.done, start = job.done + count if job.same is None else len(job.queries), start + count
        unfinished = [job for job, _ in taken if job.left > 0]
        with self._changed:
            self._jobs.extend(unfinished)
        for job, _ in taken:
            if job.left <= 0:
                job.tell(joined(job.parts))

    def _recall(self, first: Job, queries: Tensor, taken: list[tuple[Job, int]]) -> Recall[Tensor]:
        groups = None
        if first.groups is not None:
            groups = [each for job, count in taken for each in (job.groups or [])[job.done : job.done + count]]
        k = max(job.k for job, _ in taken)
        options = RecallOptions(first.rows, groups, first.same, first.patterns)
        return first.snapshot.answers(queries, k, options)


def _seconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started
