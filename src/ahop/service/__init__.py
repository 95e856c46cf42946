"""Memories and stores over HTTP, in one process or several: recall, feedback, refits, keys, limits, counters.

It needs FastAPI and uvicorn: `pip install 'ahop[serve]'`.
"""

import ahop._core.with_torch  # noqa: F401
from ahop.errors import MissingPackageError

try:
    import fastapi as _fastapi  # noqa: F401
    import prometheus_client as _prometheus_client  # noqa: F401
    import uvicorn as _uvicorn  # noqa: F401
except ImportError as error:
    raise MissingPackageError(
        "This needs fastapi, uvicorn and prometheus-client. `pip install 'ahop[serve]'`."
    ) from error

from ahop.service.collections.collection import Collection
from ahop.service.http.app import create_app
from ahop.service.http.server import run
from ahop.service.keys import Key, read_keys
from ahop.service.options import Limits, Options

__all__ = ["Collection", "Key", "Limits", "Options", "create_app", "read_keys", "run"]
