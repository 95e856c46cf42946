"""Send queries to all shards, each to its least busy replica, with retries and hedged requests to the others."""

import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Any, final

from ahop._core import optional
from ahop.errors import AhopError, UnavailableError
from ahop.scale.cluster.messages import Message, ShardResult

# How long a replica that failed is left alone if another can answer, in seconds.
REST = 1.0


@final
class Replica:
    """One process that holds a shard, and what this client knows about it."""

    def __init__(self, handle: Any) -> None:
        self.handle = handle
        self.busy, self.asked, self.rests_until = 0, 0, 0.0


@final
class ReplicaSet:
    """The replicas of one shard. Many threads may ask."""

    def __init__(self, handles: Sequence[Any]) -> None:
        self.replicas = [Replica(handle) for handle in handles]
        self._lock = Lock()

    def take(self, besides: Replica | None = None) -> Replica:
        """The next to ask, and not the one that is being waited for if there is another."""
        with self._lock:
            now = time.monotonic()
            chosen = min(
                self.replicas,
                key=lambda each: (each is besides, each.rests_until > now, each.busy, each.asked),
            )
            chosen.busy += 1
            chosen.asked += 1
            return chosen

    def avoid(self, replica: Replica) -> None:
        """It takes long, and may never answer: others are asked for a while."""
        with self._lock:
            replica.rests_until = time.monotonic() + REST

    def give_back(self, replica: Replica, has_failed: bool | None = None) -> None:
        """Args:
        has_failed: None if nobody waits for its answer any more.
        """
        with self._lock:
            replica.busy -= 1
            if has_failed is not None:
                replica.rests_until = time.monotonic() + REST if has_failed else 0.0


# Blocks that are on their way at the same time: shards need not wait for the merge.
AHEAD = 3
# Between two trials to reach a shard none of whose replicas answers, in seconds.
PAUSE = 0.05
# Results that are there are fetched; nothing is waited for without a limit, not even that.
FETCH = 30.0


@dataclass(frozen=True)
class Timeouts:
    """Limits on waiting, in seconds.

    Attributes:
        answer: for the answers of all shards to a block of queries; then `UnavailableError`.
        replica: for one replica, before another is asked the same.
        start: for shards to be read and indexed.
    """

    answer: float = 30.0
    replica: float = 5.0
    start: float = 600.0


@dataclass
class _Asked:
    """A request to one replica of a shard, on its way."""

    shard: int
    reference: Any
    replica: Replica
    since: float


@final
class Router:
    """Asks replica_sets of replicas."""

    def __init__(self, replica_sets: Sequence[ReplicaSet], timeouts: Timeouts) -> None:
        self.replica_sets, self.timeouts = replica_sets, timeouts

    def answers(self, messages: Iterator[Message], k: int, where: str | None) -> Iterator[list[ShardResult]]:
        """For each block of queries in its turn the answers of all shards, in the order of the shards."""
        on_their_way: deque[_Block] = deque()
        try:
            for message in messages:
                on_their_way.append(_Block(self, message, k, where))
                if len(on_their_way) >= AHEAD:
                    yield on_their_way.popleft().gather()
            while on_their_way:
                yield on_their_way.popleft().gather()
        finally:
            for block in on_their_way:
                block.drop()


class _Block:
    """One block of queries: what was sent, and what has come back."""

    def __init__(self, router: Router, message: Message, k: int, where: str | None) -> None:
        self._ray = optional.ray()
        self._replica_sets, self._timeouts = router.replica_sets, router.timeouts
        self._message = self._ray.put(message), k, where
        self._answers: dict[int, ShardResult] = {}
        self._asked = [self._ask(shard) for shard in range(len(self._replica_sets))]
        self._failures: dict[int, Exception] = {}

    def gather(self) -> list[ShardResult]:
        until = time.monotonic() + self._timeouts.answer
        try:
            while len(self._answers) < len(self._replica_sets):
                left = until - time.monotonic()
                if left <= 0:
                    raise self._retry()
                self._look(min(left, self._timeouts.replica, 1.0))
        finally:
            self.drop()
        return [self._answers[shard] for shard in range(len(self._replica_sets))]

    def drop(self) -> None:
        """Let go of what is still on its way."""
        for asked in self._asked:
            self._replica_sets[asked.shard].give_back(asked.replica)
        self._asked = []

    def _ask(self, shard: int, besides: Replica | None = None) -> _Asked:
        replica = self._replica_sets[shard].take(besides)
        reference = replica.handle.search.remote(*self._message)
        return _Asked(shard, reference, replica, time.monotonic())

    def _look(self, seconds: float) -> None:
        """Take what has come; ask again where it failed, and another replica where it takes too long."""
        ready, _ = self._ray.wait([asked.reference for asked in self._asked], num_returns=1, timeout=seconds)
        failed = set()
        for asked in [each for each in self._asked if each.reference in ready]:
            self._asked.remove(asked)
            has_failed = asked.shard not in self._answers and not self._take(asked)
            self._replica_sets[asked.shard].give_back(asked.replica, has_failed)
            failed |= {asked.shard} if has_failed else set()
        waited_for = {asked.shard for asked in self._asked}
        again = failed - waited_for - set(self._answers)
        if again:
            time.sleep(PAUSE)
            self._asked += [self._ask(shard) for shard in sorted(again)]
        self._ask_others_than_the_slow()

    def _take(self, asked: _Asked) -> bool:
        """True if an answer has come. Errors of the request itself are raised."""
        errors = self._ray.exceptions
        try:
            self._answers[asked.shard] = self._ray.get(asked.reference, timeout=FETCH)
            return True
        except errors.RayTaskError as error:
            cause = getattr(error, "cause", None)
            if isinstance(cause, UnavailableError):
                self._failures[asked.shard] = cause
                return False
            if isinstance(cause, AhopError):
                raise cause from None
            raise
        except (errors.RayError, TimeoutError) as error:
            self._failures[asked.shard] = error
            return False

    def _ask_others_than_the_slow(self) -> None:
        now, waiting = time.monotonic(), [asked.shard for asked in self._asked]
        for asked in list(self._asked):
            is_slow = now - asked.since > self._timeouts.replica
            if is_slow and len(self._replica_sets[asked.shard].replicas) > waiting.count(asked.shard):
                self._replica_sets[asked.shard].avoid(asked.replica)
                self._asked.append(self._ask(asked.shard, besides=asked.replica))
                waiting.append(asked.shard)

    def _retry(self) -> UnavailableError:
        missing = [shard for shard in range(len(self._replica_sets)) if shard not in self._answers]
        reasons = {type(self._failures[shard]).__name__ for shard in missing if shard in self._failures}
        why = f" ({', '.join(sorted(reasons))})" if reasons else ""
        return UnavailableError(
            f"Shards {missing} of {len(self._replica_sets)} did not answer within {self._timeouts.answer:g} seconds"
            f"{why}. They are started anew: retry in a moment."
        )
