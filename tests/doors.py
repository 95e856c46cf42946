"""Two applications behind one gate, for `uvicorn tests.doors:by_url` and `uvicorn tests.doors:cluster`.

The first routes by the URL that Starlette makes, which before 1.0.1 takes a path out of the header `Host`; the second
is what a cluster has behind its proxy, before the store that `AHOP_TEST_STORE` names.
"""

import os

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from ahop.scale.cluster.router import Timeouts
from ahop.scale.cluster.spec import shard_specs
from ahop.scale.stores import open_store
from ahop.service.cluster.ingress import RecallDeployment
from ahop.service.http.gate import Gate, Held
from ahop.service.http.metrics import Metrics
from ahop.service.http.traces import tracer_of_environment
from ahop.service.keys import Key
from ahop.service.options import Options

SECRET = "s" * 30
KEYS = (Key.of(SECRET),)


async def routed_by_url(scope: Scope, receive: Receive, send: Send) -> None:
    is_there = Request(scope, receive).url.path in ("/recall", "/health")
    await Response(status_code=200 if is_there else 404)(scope, receive, send)


by_url = Gate(routed_by_url, Options(keys=KEYS), Metrics(), Held(), tracer_of_environment())


class Cluster:
    """The deployment as an application. Its shards are not started: nothing here asks them."""

    def __init__(self) -> None:
        specs = shard_specs(open_store(os.environ["AHOP_TEST_STORE"]), 1)
        self._deployment = RecallDeployment(specs[0], [[None]], 10, Timeouts(), "ahop", KEYS)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        response = await self._deployment(Request(scope, receive))
        await response(scope, receive, send)


def cluster() -> Cluster:
    return Cluster()
