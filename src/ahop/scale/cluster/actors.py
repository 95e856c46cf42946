"""Shards as Ray actors: start, restart, placement and shutdown."""

import os
import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from threading import Lock
from typing import Any, final

from ahop._core import optional
from ahop.errors import AhopError, UnavailableError
from ahop.scale.cluster.messages import Message, ShardResult
from ahop.scale.cluster.router import ReplicaSet, Router, Timeouts
from ahop.scale.cluster.shard import Shard
from ahop.scale.cluster.spec import ShardOptions, ShardSpec, shard_specs
from ahop.scale.cluster.view import View
from ahop.scale.stores.store import Store


@final
class ShardActor:
    """Holds a shard, and builds it again from its spec wherever it is started anew.

    Ray gives up for good on an actor whose start fails. A disk or a network may fail for a moment only, so here it is
    the answer that fails, and the next call tries again.
    """

    def __init__(self, spec: ShardSpec, options: ShardOptions) -> None:
        self._share, self._options = spec, options
        self._shard: Shard | None = None
        self._failure: Exception | None = None
        self._load()

    def search(self, message: Message, k: int, where: str | None) -> ShardResult:
        return self._ready().search(message, k, where)

    def describe(self) -> dict[str, object]:
        """Describe process and machine, once the shard is there."""
        shard = self._ready()
        return {"rows": len(shard), "process": os.getpid(), "machine": socket.gethostname()}

    def _ready(self) -> Shard:
        if self._shard is None:
            self._load()
        if self._shard is None:
            raise UnavailableError(f"{self._share} cannot be read: {self._failure} Ask again.") from self._failure
        return self._shard

    def _load(self) -> None:
        try:
            self._shard, self._failure = Shard(self._share, self._options), None
        except Exception as error:  # whatever it is, it is raised at the next call
            self._failure = error


# For a word about each shard, in seconds.
WORD = 5.0


@final
class Generation:
    """The actors of one version of a store. Those who ask hold it, so that it does not end under them."""

    def __init__(
        self, store: Store, shards: int, replicas: int, cpus: float, options: ShardOptions, timeouts: Timeouts
    ) -> None:
        specs = shard_specs(store, shards)
        self.view, self.timeouts, self.specs = View(store, len(specs), options.candidates), timeouts, specs
        self._groups = [_apart(replicas, cpus) for _ in specs] if replicas > 1 else []
        self.handles = [
            [_start(spec, options, cpus, self._strategy(number, replica)) for replica in range(replicas)]
            for number, spec in enumerate(specs)
        ]
        self.router = Router([ReplicaSet(each) for each in self.handles], timeouts)
        self._users, self._is_over, self._lock = 0, False, Lock()
        try:
            self._wait(cpus)
        except BaseException:
            self._kill()
            raise

    def answers(self, messages: Iterator[Message], k: int, where: str | None) -> Iterator[list[ShardResult]]:
        return self.router.answers(messages, k, where)

    def hold(self) -> bool:
        """Do not end before `let_go`; false if it is over."""
        with self._lock:
            self._users += not self._is_over
            return not self._is_over

    def let_go(self) -> None:
        with self._lock:
            self._users -= 1
            is_last = self._is_over and not self._users
        if is_last:
            self._kill()

    def end(self) -> None:
        """Once nobody asks any more."""
        with self._lock:
            was_over, self._is_over = self._is_over, True
            is_free = not self._users
        if is_free and not was_over:
            self._kill()

    def describe(self) -> list[dict[str, object]]:
        """A line for each replica: who and where it is, or that it is away."""
        ray = optional.ray()
        asked = [
            (shard, number, handle.describe.remote())
            for shard, handles in enumerate(self.handles)
            for number, handle in enumerate(handles)
        ]
        ray.wait([reference for *_, reference in asked], num_returns=len(asked), timeout=WORD)
        lines = []
        for shard, number, reference in asked:
            line: dict[str, object] = {"shard": shard, "replica": number, "rows": len(self.specs[shard])}
            try:
                line |= {"answers": True} | ray.get(reference, timeout=0)
            except (ray.exceptions.RayError, TimeoutError, AhopError) as error:
                line |= {"answers": False, "why": type(getattr(error, "cause", None) or error).__name__}
            lines.append(line)
        return lines

    def _wait(self, cpus: float) -> None:
        """Until all shards are there."""
        ray = optional.ray()
        waiting = [handle.describe.remote() for handles in self.handles for handle in handles]
        until = time.monotonic() + self.timeouts.start
        while waiting:
            ready, waiting = ray.wait(waiting, num_returns=1, timeout=max(0.0, until - time.monotonic()))
            if not ready:
                raise UnavailableError(
                    f"{len(waiting)} shards were not there within {self.timeouts.start:g} seconds. Each needs {cpus:g} "
                    "CPUs that are free, and time to read its rows: add machines, or give fewer `shards`, fewer "
                    "`cpus`, or more time by `timeouts`."
                )
            try:
                ray.get(ready[0], timeout=WORD)
            except ray.exceptions.RayTaskError as error:
                raise (error.cause if isinstance(getattr(error, "cause", None), AhopError) else error) from None

    def _strategy(self, shard: int, replica: int) -> Any:
        if not self._groups:
            return "SPREAD"
        strategies = optional.ray().util.scheduling_strategies
        return strategies.PlacementGroupSchedulingStrategy(self._groups[shard], replica)

    def _kill(self) -> None:
        ray = optional.ray()
        for handle in (each for handles in self.handles for each in handles):
            with suppress(ray.exceptions.RayError, RuntimeError):  # Ray itself may be gone
                ray.kill(handle, no_restart=True)
        for group in self._groups:
            with suppress(ray.exceptions.RayError, RuntimeError):
                ray.util.remove_placement_group(group)


def _apart(replicas: int, cpus: float) -> Any:
    """Places for the replicas of one shard, on different machines if there are as many."""
    return optional.ray().util.placement_group([{"CPU": cpus}] * replicas, strategy="SPREAD")


def _start(spec: ShardSpec, options: ShardOptions, cpus: float, place: Any) -> Any:
    # No argument is large: actors whose arguments are, cannot be started anew. Ray does not repeat a question that was
    # lost, as another replica can be asked.
    actor = optional.ray().remote(ShardActor)
    chosen = actor.options(num_cpus=cpus, max_restarts=-1, max_task_retries=0, scheduling_strategy=place)
    return chosen.remote(spec, options)
