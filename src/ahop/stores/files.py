"""Files of our own beside those of Lance, on a disk or in an object store."""

from typing import Any

from ahop import _optional
from ahop.stores.location import Location


def files_of(location: Location) -> Any:
    """Reads, writes, lists and removes files by their paths in the table."""
    return _optional.lance().file.LanceFileSession(location.address, storage_options=location.options)
