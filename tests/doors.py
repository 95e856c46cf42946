"""Two applications behind one gate, for `uvicorn tests.doors:by_url` and `uvicorn tests.doors:service`.

The first routes by the URL that Starlette makes, which before 1.0.1 takes a path out of the header `Host`; the second
is a service that answers from the shards of the store that `AHOP_TEST_STORE` names.
"""

import os

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from ahop.scale.cluster import LocalCluster
from ahop.service.http.app import create_app
from ahop.service.http.gate import Gate, Held
from ahop.service.http.metrics import Metrics
from ahop.service.http.traces import tracer_of_environment
from ahop.service.keys import Key
from ahop.service.options import Options

SECRET = "s" * 30
KEYS = (Key.of(SECRET),)
ROUTES = ("/collections/phones/recall", "/collections/phones")


async def routed_by_url(scope: Scope, receive: Receive, send: Send) -> None:
    is_there = Request(scope, receive).url.path in ROUTES
    await Response(status_code=200 if is_there else 404)(scope, receive, send)


by_url = Gate(routed_by_url, Options(keys=KEYS), Metrics(), Held(), tracer_of_environment())


def service() -> FastAPI:
    return create_app({"phones": LocalCluster(os.environ["AHOP_TEST_STORE"], 2)}, Options(keys=KEYS))
