"""Durable tables of patterns and of what was learned about them: versioned, for many writers, larger than memory."""

from ahop.stores.cached import StoredIndex
from ahop.stores.creating import create
from ahop.stores.lance import LanceStore, Version, open_store
from ahop.stores.tables import Rows

__all__ = ["LanceStore", "Rows", "StoredIndex", "Version", "create", "open_store"]
