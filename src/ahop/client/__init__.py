"""Clients of the service: they recall as a memory does. They need no torch."""

from ahop.errors import MissingPackageError

try:
    from ahop.client.asynchronous import AsyncClient
    from ahop.client.client import Client
except ModuleNotFoundError as error:
    if error.name != "httpx2":
        raise
    raise MissingPackageError("The client needs httpx2. `pip install 'ahop[client]'`.") from error

__all__ = ["AsyncClient", "Client"]
