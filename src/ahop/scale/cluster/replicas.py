"""Load balancing over the replicas of a shard: the least busy one that did not just fail."""

import time
from collections.abc import Sequence
from threading import Lock
from typing import Any, final

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
