"""The Ray actor that holds one shard."""

import os
import socket
from typing import final

from ahop.errors import UnavailableError
from ahop.scale.cluster.messages import Message, ShardResult
from ahop.scale.cluster.options import ShardOptions
from ahop.scale.cluster.shard import Shard
from ahop.scale.cluster.spec import ShardSpec


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
