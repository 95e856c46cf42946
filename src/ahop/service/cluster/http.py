"""HTTP service on Ray Serve."""

import os
import socket
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, final

from ahop._core import optional
from ahop._core.checks import check_count
from ahop.errors import InvalidValueError, UnsupportedError
from ahop.scale.cluster.cluster import Cluster, connect
from ahop.scale.cluster.router import Timeouts
from ahop.scale.cluster.spec import ShardOptions
from ahop.scale.stores.location import Address
from ahop.scale.stores.store import Store

if TYPE_CHECKING:
    from ahop.service.keys import Key

# Requests that may wait for a process; the others are told to come back.
WAITING = 256


def _refuse_taken(host: str, port: int) -> None:
    """Ray Serve shares its port with whoever else does, and the system would send each of them some of the requests."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as tried:
        if os.name == "posix":  # connections that are about to end are nobody's
            tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            tried.bind((host, port))
        except (OSError, OverflowError) as error:
            raise InvalidValueError(f"`port` must be free on `{host}`; got {port}: {error}.") from error


@final
class Service:
    """A cluster and its HTTP processes; made by `serve`. It ends with the process that made it.

    Attributes:
        url: where it answers.
    """

    def __init__(
        self, cluster: Cluster, host: str, port: int, http_processes: int, name: str, keys: "tuple[Key, ...]" = ()
    ) -> None:
        self._keys = keys
        self.cluster, self.url = cluster, f"http://{host}:{port}"
        self._deployments, self._name, self._serve = (
            check_count("http_processes", http_processes),
            name,
            optional.ray_serve(),
        )
        if self._serve.status().proxies:  # it would go on as it was started, on whatever address that was
            raise UnsupportedError("Ray Serve is running in this Ray already: close that service, or take another Ray.")
        self._serve.start(http_options={"host": host, "port": port})
        self._open()

    def refresh(self) -> int:
        """Move to the newest version of the store: new shards, then new HTTP processes, then the old ones end."""
        with self.cluster.held() as old:
            version = self.cluster.refresh()
            if version != old.view.version:
                self._open()
        return version

    def close(self) -> None:
        self._serve.shutdown()
        self.cluster.close()

    def __enter__(self) -> "Service":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _open(self) -> None:
        from ahop.service.cluster.ingress import AT_A_TIME, RecallDeployment

        with self.cluster.held() as generation:
            deployment = self._serve.deployment(RecallDeployment).options(
                name="recall",
                num_replicas=self._deployments,
                max_ongoing_requests=AT_A_TIME,
                max_queued_requests=WAITING,
                ray_actor_options={"num_cpus": 0.25},
            )
            bound = deployment.bind(
                generation.specs[0],
                generation.handles,
                generation.view.candidates,
                generation.timeouts,
                self._name,
                self._keys,
            )
            self._serve.run(bound, name=self._name, route_prefix="/")


def serve(
    store: Store | Address,
    shards: int = 4,
    replicas: int = 1,
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    http_processes: int = 1,
    name: str = "ahop",
    keys: "Sequence[Key]" = (),
    address: str | None = None,
    cpus: float = 0.5,
    options: ShardOptions | None = None,
    timeouts: Timeouts | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> Service:
    """Answer `POST /recall` from the shards of a store.

    Args:
        http_processes: processes that read requests and merge answers.
        host: `0.0.0.0` for all networks of the machine, which needs a key.
        name: of the service; keys that are for some collections must be for this one.
        keys: who may ask, as a service has them. Those with a filter are refused.

    The other arguments are those of `connect`.

    Raises:
        InvalidValueError: another process listens on this port, or the address is public and there is no key.
        UnsupportedError: Ray Serve is running in this Ray already.
    """
    from ahop.service.keys import refuse_open

    refuse_open(host, keys)
    if any(key.where is not None for key in keys):
        raise InvalidValueError("`keys` must have no filter here: give their owners a store or a service of their own.")
    _refuse_taken(host, port)
    chosen = timeouts or Timeouts(answer=10.0)  # a client would rather be told to come back
    start = partial(connect, store, shards, replicas, address=address, cpus=cpus, options=options, timeouts=chosen)
    cluster = start(storage_options=storage_options)
    try:
        return Service(cluster, host, port, http_processes, name, tuple(keys))
    except BaseException:
        cluster.close()
        raise
