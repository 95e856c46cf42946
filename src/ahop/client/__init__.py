"""Clients of the service: they recall as a memory does. Nothing but this package is needed for them."""

from ahop.client.asynchronous import AsyncClient
from ahop.client.client import Client

__all__ = ["AsyncClient", "Client"]
