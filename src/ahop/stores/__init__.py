"""Durable tables of patterns and of what was learned about them: versioned, for many writers, larger than memory."""

from ahop.stores.create import create_store
from ahop.stores.repair import Health, examine_store, repair_store
from ahop.stores.rows import Rows
from ahop.stores.store import Store, Version, open_store
from ahop.stores.stored_index import StoredIndex

__all__ = [
    "Health",
    "Rows",
    "Store",
    "StoredIndex",
    "Version",
    "create_store",
    "examine_store",
    "open_store",
    "repair_store",
]
