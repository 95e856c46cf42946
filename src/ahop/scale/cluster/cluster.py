"""A store sharded over the machines of a Ray cluster."""

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from math import ceil
from threading import Lock
from typing import Any, final

from typing_extensions import override

from ahop._core import optional
from ahop._core.checks import check_count, check_positive
from ahop.errors import UnsupportedError
from ahop.scale.cluster.actors import Generation
from ahop.scale.cluster.ray_access import listen_on_this_machine, refuse_open_ray
from ahop.scale.cluster.router import Timeouts
from ahop.scale.cluster.spec import ShardOptions, as_store
from ahop.scale.cluster.view import ShardedRecaller, View
from ahop.scale.stores.location import Address
from ahop.scale.stores.store import Store


@dataclass(frozen=True)
class Status:
    """State of a cluster.

    Attributes:
        version: of the store that is answered from.
        rows: how many patterns.
        replicas: a line for each, with its shard, whether it answers, its process and machine.
    """

    version: int
    rows: int
    replicas: list[dict[str, object]]

    @property
    def is_whole(self) -> bool:
        """True if every replica answers."""
        return all(bool(line["answers"]) for line in self.replicas)


@final
class Cluster(ShardedRecaller):
    """The shards of a store as actors of Ray; made by `connect`. Many threads may ask."""

    def __init__(
        self,
        store: Store,
        shards: int,
        replicas: int,
        cpus: float,
        options: ShardOptions,
        timeouts: Timeouts,
        owns_ray: bool,
    ) -> None:
        self._options, self._timeouts, self._owns_ray = options, timeouts, owns_ray
        self._shards, self._replicas = check_count("shards", shards), check_count("replicas", replicas)
        self._cpus = check_positive("cpus", cpus)
        self._turn, self._is_closed = Lock(), False
        self._generation = self._started(store)

    @property
    @override
    def view(self) -> View:
        return self._generation.view

    @override
    def refresh(self) -> int:
        """Move to the newest version of the store, and answer with its number.

        The old shards answer until the new ones are there, so for a while both need room. If the version is the same,
        shards are started anew only where some do not answer.
        """
        with self._turn:
            store = self.newest()
            if store.version != self.version or not self.status().is_whole:
                old, self._generation = self._generation, self._started(store)
                old.end()
            return self.version

    def status(self) -> Status:
        """List the replicas and whether they answer at this moment."""
        with self.held() as generation:
            return Status(generation.view.version, generation.view.rows, generation.describe())

    @override
    def close(self) -> None:
        """End the shards; and Ray too, if it was started for them."""
        if self._is_closed:
            return
        self._is_closed = True
        self._generation.end()
        if self._owns_ray:
            optional.ray().shutdown()

    @override
    @contextmanager
    def held(self) -> Iterator[Generation]:
        generation = self._generation
        while not generation.hold():
            if self._is_closed:
                raise UnsupportedError("This cluster was closed. `connect` again.")
            generation = self._generation
        try:
            yield generation
        finally:
            generation.let_go()

    def _started(self, store: Store) -> Generation:
        return Generation(store, self._shards, self._replicas, self._cpus, self._options, self._timeouts)


def connect(
    store: Store | Address,
    shards: int = 4,
    replicas: int = 1,
    *,
    address: str | None = None,
    cpus: float = 0.5,
    options: ShardOptions | None = None,
    timeouts: Timeouts | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> Cluster:
    """The patterns of a store on the machines of a Ray cluster, each part in the memory of one or several of them.

    Args:
        store: in the version that this handle sees; an address stands for the newest. All machines must reach it under
            the same address.
        shards: how many parts; fewer if there are fewer rows.
        replicas: processes for each part. With two, no answer waits for one of them to be started anew.
        address: of a Ray cluster. If None, the one that this process is connected to or that `RAY_ADDRESS` names; if
            there is none, Ray is started on this machine alone.
        cpus: that Ray counts for each process, which takes as many threads, and at least one.
    """
    opened = as_store(store, storage_options)
    # New shards must find room beside the old ones, and tasks of others beside both.
    owns_ray = start_ray(address, 2 * shards * replicas * cpus + 1)
    try:
        return Cluster(opened, shards, replicas, cpus, options or ShardOptions(), timeouts or Timeouts(), owns_ray)
    except BaseException:
        if owns_ray:
            optional.ray().shutdown()
        raise


def start_ray(address: str | None = None, cpus: float = 1.0) -> bool:
    """Be connected to Ray; whether it was this call that did it.

    Args:
        cpus: that are needed, if Ray is started here: they are counted, not measured.

    Raises:
        UnsupportedError: strangers could run code by its ports.
    """
    address = address or os.environ.get("RAY_ADDRESS")
    is_alone = address is None
    if is_alone and "ray" not in sys.modules:
        listen_on_this_machine()
        # Else its processes give way to every other of the machine, and the caller waits for them.
        os.environ.setdefault("RAY_worker_niceness", "0")
    ray = optional.ray()
    if ray.is_initialized():
        return False
    refuse_open_ray(address)
    alone: dict[str, Any] = {
        "address": "local",
        "num_cpus": max(ceil(cpus), os.cpu_count() or 1),
        "include_dashboard": False,
    }
    ray.init(**(alone if is_alone else {"address": address}), log_to_driver=False, configure_logging=False)
    return True
