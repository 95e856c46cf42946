"""Durable tables of patterns and of what was learned about them: versioned, for many writers, larger than memory."""

import ahop._core.with_torch  # noqa: F401
from ahop.scale.stores.create import create_store
from ahop.scale.stores.repair import Health, examine_store, repair_store
from ahop.scale.stores.store import Store, Version, open_store
from ahop.scale.stores.stored_index import StoredIndex
from ahop.scale.stores.table_rows import Rows

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
