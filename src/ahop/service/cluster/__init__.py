"""A cluster behind HTTP."""

from ahop.service.cluster.http import Service, serve

__all__ = ["Service", "serve"]
